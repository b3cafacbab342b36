"""`muntin doctor`: is a checkpoint whole, and its output with it; and if not, what can be repaired.

`examine` looks at every durable file, ours (`checkpoint_files`), Spark's (`SparkHalf` of the room `run`) and the
output's (`output_files`), and finds the last micro-batch that is whole. `repair` goes back to it. Nothing needs Spark.
"""

from muntin.spark.doctor.examine import Examination, examine
from muntin.spark.doctor.finding import Finding, Level, PipelineFindings
from muntin.spark.doctor.repair import repair

__all__ = ["Examination", "Finding", "Level", "PipelineFindings", "examine", "repair"]
