import sys
sys.path[:] = [folder for folder in sys.path if folder]
from importlib.util import find_spec
lacking = [name for name in ('torch', 'transformers') if find_spec(name) is None]
print('no ' + ' and no '.join(lacking) if lacking else __import__('torch').cuda.is_available())
