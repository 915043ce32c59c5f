def render_monitor_html(record): return ""
