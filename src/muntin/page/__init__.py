"""The picture of a plan and of a running job: static files for browsers, and the same as one document.

`document` makes one file of script, style and data, for `muntin explain --html` and for notebooks. `static` has what
the live page loads. Nothing is fetched from elsewhere, and there is no build step.
"""

from muntin.page.document import STATIC, Explanation, framed, plan_document

__all__ = ["STATIC", "Explanation", "framed", "plan_document"]
