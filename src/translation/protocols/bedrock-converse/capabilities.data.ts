import type { Endpoint } from '../../../resources/models/catalog.ts'

/** How the models behind the one API differ. */
export interface ModelFamily {
  /**
   * The origin of the thinking in `reasoning_details`. Entries marked `unknown` are never sent
   * back.
   */
  reasoning_format: string
  /** How thinking is requested, within `additionalModelRequestFields`. */
  thinking: 'claude' | 'nova' | 'reasoning_effort' | 'reasoning' | 'none'
  /**
   * The path of `top_k` within `additionalModelRequestFields`. Null if the model has no such
   * parameter.
   */
  top_k: string[] | null
  /** The highest temperature that it accepts. */
  maxTemperature: number
  /** The members of `inferenceConfig` that it refuses. */
  unsupportedConfig: readonly string[]
  /** Whether `toolChoice` may force a tool call (any, tool). */
  supportsForcedTools: boolean
  /** Whether it accepts the status of a failed tool (`toolResult.status`). */
  supportsResultStatus: boolean
  /** The tool call ids that it accepts: any of up to 64 characters, or exactly nine. */
  toolCallIds: 'any' | 'nine'
  /** Where it accepts cache points. */
  cachePoints: 'everywhere' | 'outside tools' | 'nowhere'
  /** Whether a cache point may last for an hour. */
  supportsHourCache: boolean
  /** Whether it enforces a schema natively (`outputConfig.textFormat`). */
  supportsSchemas: boolean
  /** Whether it continues an answer that the caller began (prefill). */
  supportsPrefill: boolean
}

/**
 * A model of which nothing is known but that Converse serves it. Whatever other models refuse is
 * left out. Thinking that it signs is taken for Claude's, since no other model there signs
 * thinking.
 */
const UNKNOWN_MODEL: ModelFamily = {
  reasoning_format: 'anthropic-claude-v1',
  thinking: 'none',
  top_k: null,
  maxTemperature: 1,
  unsupportedConfig: [],
  supportsForcedTools: true,
  supportsResultStatus: false,
  toolCallIds: 'any',
  cachePoints: 'nowhere',
  supportsHourCache: false,
  supportsSchemas: false,
  supportsPrefill: false,
}

/**
 * Claude's models. Their differences are in the table of Anthropic's own API, except for what
 * Bedrock adds.
 */
const CLAUDE: ModelFamily = {
  ...UNKNOWN_MODEL,
  thinking: 'claude',
  top_k: ['top_k'],
  supportsResultStatus: true,
  cachePoints: 'everywhere',
  supportsHourCache: true,
}

const OTHER_VENDOR: ModelFamily = { ...UNKNOWN_MODEL, reasoning_format: 'unknown' }

const NOVA: ModelFamily = {
  ...OTHER_VENDOR,
  top_k: ['inferenceConfig', 'topK'],
  supportsResultStatus: true,
  cachePoints: 'outside tools',
  supportsPrefill: true,
}

const OPEN_WEIGHT: ModelFamily = { ...OTHER_VENDOR, supportsSchemas: true }

/**
 * Maps Bedrock's model name, with dots as hyphens, to a family. The first match wins. Sources: the
 * Bedrock user guide ("Inference request parameters", "Supported models and model features",
 * "Prompt caching", "Get validated JSON results from models"), the API reference (ToolChoice,
 * ToolResultBlock) and the Nova user guides.
 */
const FAMILIES: [model: RegExp, family: ModelFamily][] = [
  [/claude-((opus|sonnet|haiku)-4-5|opus-4-6)/, { ...CLAUDE, supportsSchemas: true }],
  [
    /claude-(instant|v?[12](?!\d)|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)/,
    { ...CLAUDE, cachePoints: 'nowhere', supportsHourCache: false },
  ],
  [/claude-(3-|(opus|sonnet)-4(-0|-1|-2025|@|$))/, { ...CLAUDE, supportsHourCache: false }],
  [/claude|anthropic/, CLAUDE],
  [/amazon[-/]nova-2/, { ...NOVA, thinking: 'nova' }],
  [/amazon[-/]nova/, NOVA],
  [
    /gpt-oss/,
    { ...OPEN_WEIGHT, thinking: 'reasoning_effort', unsupportedConfig: ['stopSequences'] },
  ],
  [
    /openai|gpt-\d/,
    {
      ...OTHER_VENDOR,
      reasoning_format: 'bedrock-openai-responses-v1',
      thinking: 'reasoning',
      maxTemperature: 2,
      unsupportedConfig: ['temperature', 'topP', 'stopSequences'],
    },
  ],
  [/grok|\bxai\b/, { ...OTHER_VENDOR, reasoning_format: 'bedrock-xai-responses-v1' }],
  [/magistral|ministral|mistral-large-3|voxtral/, { ...OPEN_WEIGHT, toolCallIds: 'nine' }],
  [/mistral-large/, { ...OTHER_VENDOR, top_k: ['top_k'], toolCallIds: 'nine' }],
  [
    /mistral|mixtral|pixtral/,
    { ...OTHER_VENDOR, top_k: ['top_k'], supportsForcedTools: false, toolCallIds: 'nine' },
  ],
  [/cohere|command-/, { ...OTHER_VENDOR, top_k: ['k'], supportsForcedTools: false }],
  [
    /llama|titan|jamba|ai21|palmyra|writer|deepseek-r1/,
    { ...OTHER_VENDOR, supportsForcedTools: false },
  ],
  [/qwen3|deepseek|gemma|nemotron|minimax|kimi/, OPEN_WEIGHT],
]

const normalizeName = (name: string) => name.toLowerCase().replaceAll('.', '-')

/** Returns what is known of the endpoint's model. */
export const getModelFamily = (endpoint: Endpoint): ModelFamily =>
  findFamily(getModelName(endpoint)) ?? UNKNOWN_MODEL

/**
 * Returns the endpoint under a name that identifies its model. An inference profile's name does
 * not, but our own slug may.
 */
export const resolveModelName = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  upstreamModel: getModelName(endpoint),
})

const getModelName = ({ upstreamModel, model }: Endpoint): string =>
  findFamily(upstreamModel) ? upstreamModel : model

const findFamily = (name: string): ModelFamily | undefined =>
  FAMILIES.find(([pattern]) => pattern.test(normalizeName(name)))?.[1]

/**
 * The beta features that Claude on Bedrock knows (Bedrock user guide, "Anthropic Claude Messages
 * API"). It refuses a whole request for one unknown feature (translation trap 36).
 */
export const BETAS = new Set([
  'computer-use-2024-10-22',
  'computer-use-2025-01-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dev-full-thinking-2025-05-14',
  'effort-2025-11-24',
  'interleaved-thinking-2025-05-14',
  'output-128k-2025-02-19',
  'token-efficient-tools-2025-02-19',
  'tool-examples-2025-10-29',
  'tool-search-tool-2025-10-19',
])

/**
 * Converse's names of the media formats that it accepts (API reference, ImageBlock, VideoBlock,
 * DocumentBlock, AudioBlock).
 */
export const IMAGE_FORMATS: Record<string, string> = {
  'image/gif': 'gif',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/png': 'png',
  'image/webp': 'webp',
}

export const VIDEO_FORMATS: Record<string, string> = {
  'video/3gpp': 'three_gp',
  'video/mp4': 'mp4',
  'video/mpeg': 'mpeg',
  'video/mpg': 'mpg',
  'video/quicktime': 'mov',
  'video/webm': 'webm',
  'video/wmv': 'wmv',
  'video/x-flv': 'flv',
  'video/x-matroska': 'mkv',
  'video/x-ms-wmv': 'wmv',
}

export const DOCUMENT_FORMATS: Record<string, string> = {
  'application/msword': 'doc',
  'application/pdf': 'pdf',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'text/plain': 'txt',
  'text/x-markdown': 'md',
}

export const AUDIO_FORMATS = new Set([
  'aac',
  'flac',
  'm4a',
  'mka',
  'mkv',
  'mp3',
  'mp4',
  'mpeg',
  'mpga',
  'ogg',
  'opus',
  'pcm',
  'wav',
  'webm',
  'x-aac',
])
