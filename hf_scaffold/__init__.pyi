"""The public names, each with the module that has it. `__init__.py` loads them from there."""

from .counting.counts import PreTokenCounts as PreTokenCounts
from .counting.counts import count as count
from .engine.encoder import Encoder as Encoder
from .errors import ArtifactError as ArtifactError
from .errors import ConfigurationError as ConfigurationError
from .errors import CorpusError as CorpusError
from .errors import CountOverflowError as CountOverflowError
from .errors import HubError as HubError
from .errors import ScaffoldError as ScaffoldError
from .errors import VocabSizeError as VocabSizeError
from .evaluation.audit import Audit as Audit
from .evaluation.audit import audit_tokenizer as audit_tokenizer
from .evaluation.baselines import BASELINES as BASELINES
from .evaluation.baselines import load_any_tokenizer as load_any_tokenizer
from .evaluation.baselines import train_baseline as train_baseline
from .evaluation.comparison import Standalone as Standalone
from .evaluation.comparison import VocabularyChange as VocabularyChange
from .evaluation.comparison import compare as compare
from .evaluation.comparison import standalone_share as standalone_share
from .evaluation.conversion import Conversion as Conversion
from .evaluation.conversion import bpe_from_tokenizer as bpe_from_tokenizer
from .evaluation.metrics import Evaluation as Evaluation
from .evaluation.metrics import EvaluationText as EvaluationText
from .evaluation.metrics import evaluate as evaluate
from .evaluation.tables import MetricRow as MetricRow
from .evaluation.tables import TokenizerComparison as TokenizerComparison
from .evaluation.tables import compare_tokenizers as compare_tokenizers
from .report.figures import figure_frequencies as figure_frequencies
from .report.figures import figure_gain as figure_gain
from .report.figures import figure_standalone as figure_standalone
from .report.report import Report as Report
from .report.report import make_report as make_report
from .shards.writing import ShardIndex as ShardIndex
from .shards.writing import write_shards as write_shards
from .text.pretokenizers import CHARACTER_PRESETS as CHARACTER_PRESETS
from .text.pretokenizers import PRESETS as PRESETS
from .text.pretokenizers import Pretokenizer as Pretokenizer
from .text.pretokenizers import get_pretokenizer as get_pretokenizer
from .tokenization_scaffold import ScaffoldTokenizerFast as ScaffoldTokenizerFast
from .tokenizer.training import train_tokenizer as train_tokenizer
from .training.artifact import ScaffoldBPE as ScaffoldBPE
from .training.log import TrainingLog as TrainingLog
from .training.trainer import train as train

__version__: str
