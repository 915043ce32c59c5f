# The names that other rooms may use. They are imported from their modules at their first use.
<<<<<<< HEAD
from .course import CurvePoint as CurvePoint
from .course import describe_course as describe_course
=======
from .course import MAX_CURVES as MAX_CURVES
from .course import Course as Course
from .course import CoursePoint as CoursePoint
from .course import Curve as Curve
>>>>>>> shadow
from .course import draw_course as draw_course
from .figures import TEMPLATES_FOLDER as TEMPLATES_FOLDER
from .figures import Picture as Picture
from .figures import comparison_style as comparison_style
from .figures import describe_sides as describe_sides
from .figures import draw_figures as draw_figures
from .figures import format_shape as format_shape
from .figures import render_picture_html as render_picture_html
from .name_map import NameMap as NameMap
from .name_map import draw_name_map as draw_name_map
from .png import render_picture_png as render_picture_png
from .svg import DrawingBox as DrawingBox
from .svg import LogScale as LogScale
from .svg import log_range as log_range
from .svg import svg_drawing as svg_drawing
from .svg import svg_element as svg_element
from .svg import svg_line as svg_line
from .svg import svg_text as svg_text
from .svg import svg_title as svg_title
