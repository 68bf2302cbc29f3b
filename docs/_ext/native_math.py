"""Mathematics as MathML, rendered by the browser: no script, nothing loaded from the network."""

from docutils import nodes
from latex2mathml.converter import convert


def _visit_math(translator, node):
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _visit_block(translator, node):
    translator.body.append(f'<div class="math-block">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_block, None))
    app.connect("config-inited", lambda app, config: setattr(config, "html_math_renderer", "mathml"))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
