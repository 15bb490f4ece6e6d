import type { Endpoint } from '../../catalog/models.ts'

/** In what the models behind the one API differ. */
export interface Family {
  /** Whose thinking it is, in `reasoning_details`. What is marked `unknown` nobody takes back. */
  reasoning_format: string
  /** How it is asked to think, among the fields of its own. */
  thinking: 'claude' | 'nova' | 'reasoning_effort' | 'reasoning' | 'none'
  /** Where `top_k` goes among the fields of its own; null where it has no such thing. */
  top_k: string[] | null
  /** The highest temperature that it takes. */
  hottest: number
  /** What it refuses of `inferenceConfig`. */
  refuses: readonly string[]
  /** Whether it may be made to call a tool (`toolChoice` any, tool). */
  forces: boolean
  /** Whether it is told that a tool has failed (`toolResult.status`). */
  statuses: boolean
  /** Which ids a tool call may have: any of 64 letters, or exactly nine. */
  ids: 'any' | 'nine'
  /** Where it takes cache points. */
  cache: 'everywhere' | 'outside tools' | 'nowhere'
  /** Whether a cache point may be kept for an hour. */
  hour: boolean
  /** Whether it keeps to a schema by itself (`outputConfig.textFormat`). */
  schemas: boolean
  /** Whether it goes on with an answer that was begun for it. */
  prefill: boolean
}

/**
 * Nothing is known of these but that they are asked through Converse: what others would refuse is left out. Thinking that one of
 * them signs is taken for Claude's, since no other model there signs.
 */
const STRANGER: Family = {
  reasoning_format: 'anthropic-claude-v1',
  thinking: 'none',
  top_k: null,
  hottest: 1,
  refuses: [],
  forces: true,
  statuses: false,
  ids: 'any',
  cache: 'nowhere',
  hour: false,
  schemas: false,
  prefill: false,
}

/** What differs from model to model of Claude is in the table of Anthropic's own API, but for what Bedrock adds. */
const CLAUDE: Family = {
  ...STRANGER,
  thinking: 'claude',
  top_k: ['top_k'],
  statuses: true,
  cache: 'everywhere',
  hour: true,
}

const NAMED: Family = { ...STRANGER, reasoning_format: 'unknown' }

const NOVA: Family = {
  ...NAMED,
  top_k: ['inferenceConfig', 'topK'],
  statuses: true,
  cache: 'outside tools',
  prefill: true,
}

const OPEN_WEIGHT: Family = { ...NAMED, schemas: true }

/**
 * By Bedrock's name of the model, dots as hyphens: the first that matches. From the Bedrock user guide ("Inference request
 * parameters", "Supported models and model features", "Prompt caching", "Get validated JSON results from models"), the API
 * reference (ToolChoice, ToolResultBlock) and the Nova user guides.
 */
const FAMILIES: [model: RegExp, family: Family][] = [
  [/claude-((opus|sonnet|haiku)-4-5|opus-4-6)/, { ...CLAUDE, schemas: true }],
  [
    /claude-(instant|v?[12](?!\d)|3-(opus|sonnet|haiku)|3-5-sonnet-20240620)/,
    { ...CLAUDE, cache: 'nowhere', hour: false },
  ],
  [/claude-(3-|(opus|sonnet)-4(-0|-1|-2025|@|$))/, { ...CLAUDE, hour: false }],
  [/claude|anthropic/, CLAUDE],
  [/amazon[-/]nova-2/, { ...NOVA, thinking: 'nova' }],
  [/amazon[-/]nova/, NOVA],
  [/gpt-oss/, { ...OPEN_WEIGHT, thinking: 'reasoning_effort', refuses: ['stopSequences'] }],
  [
    /openai|gpt-\d/,
    {
      ...NAMED,
      reasoning_format: 'bedrock-openai-responses-v1',
      thinking: 'reasoning',
      hottest: 2,
      refuses: ['temperature', 'topP', 'stopSequences'],
    },
  ],
  [/grok|\bxai\b/, { ...NAMED, reasoning_format: 'bedrock-xai-responses-v1' }],
  [/magistral|ministral|mistral-large-3|voxtral/, { ...OPEN_WEIGHT, ids: 'nine' }],
  [/mistral-large/, { ...NAMED, top_k: ['top_k'], ids: 'nine' }],
  [/mistral|mixtral|pixtral/, { ...NAMED, top_k: ['top_k'], forces: false, ids: 'nine' }],
  [/cohere|command-/, { ...NAMED, top_k: ['k'], forces: false }],
  [/llama|titan|jamba|ai21|palmyra|writer|deepseek-r1/, { ...NAMED, forces: false }],
  [/qwen3|deepseek|gemma|nemotron|minimax|kimi/, OPEN_WEIGHT],
]

const plain = (name: string) => name.toLowerCase().replaceAll('.', '-')

/** What is known of the model of this endpoint. */
export const familyOf = (endpoint: Endpoint): Family => found(nameOf(endpoint)) ?? STRANGER

/** The endpoint under a name that tells what its model is: that of an inference profile does not, then our own slug may. */
export const named = (endpoint: Endpoint): Endpoint => ({
  ...endpoint,
  upstreamModel: nameOf(endpoint),
})

const nameOf = ({ upstreamModel, model }: Endpoint): string =>
  found(upstreamModel) ? upstreamModel : model

const found = (name: string): Family | undefined =>
  FAMILIES.find(([pattern]) => pattern.test(plain(name)))?.[1]

/**
 * Anthropic's features by header that Bedrock's Claude knows (Bedrock user guide, "Anthropic Claude Messages API"). It refuses a
 * whole request for one that it does not know (translation trap 36).
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

/** What Converse calls the kinds of media that it takes (API reference, ImageBlock, VideoBlock, DocumentBlock, AudioBlock). */

export const IMAGES: Record<string, string> = {
  'image/gif': 'gif',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/png': 'png',
  'image/webp': 'webp',
}

export const VIDEOS: Record<string, string> = {
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

export const DOCUMENTS: Record<string, string> = {
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

export const AUDIO = new Set([
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
