from asap import functions as functions
from asap import ray as ray
from asap._asap import ArgumentError as ArgumentError
from asap._asap import BudgetError as BudgetError
from asap._asap import Column as Column
from asap._asap import Error as Error
from asap._asap import InputError as InputError
from asap._asap import Reader as Reader
from asap._asap import RejectsError as RejectsError
from asap._asap import TableError as TableError
from asap._asap import UnavailableError as UnavailableError
from asap._messages import Note as Note
from asap._prune import prune as prune
from asap._pruner import Pruner as Pruner
from asap._results import Pruned as Pruned
from asap._results import Report as Report
from asap._results import report as report
from asap._run import exam as exam
from asap._run import run as run
from asap._settings import pipelines as pipelines
from asap._settings import settings as settings
from asap._sql import sql as sql
from asap.functions import *

__version__: str
