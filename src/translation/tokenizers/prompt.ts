import { countJsonBytes } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'
import type { Usage } from '../../language/usage.ts'

/** Counts the tokens of texts as the answering model would. */
export type CountTokens = (texts: string[]) => Promise<number>

/** The tokens of a prompt by modality, as far as modalities have their own prices. */
export type ExpectedInput = Pick<Usage['input'], 'text' | 'audio' | 'video'>

/**
 * Estimates the tokens of a prompt that its provider did not count: its texts, its tools and the
 * framing. The sizes of images, audio, videos and files are unknown, so each gets a constant or a
 * rate that vendors publish.
 */
export async function estimatePrompt(
  { messages, tools }: TextCall,
  count: CountTokens,
): Promise<ExpectedInput> {
  const blocks = messages.flatMap(message => message.blocks)
  const { text, ...rest } = await estimateContent(
    blocks,
    count,
    tools.length > 0 ? [JSON.stringify(tools)] : [],
  )
  return { text: text + PER_MESSAGE * messages.length + PER_ANSWER, ...rest }
}

/** Estimates the tokens of content blocks and of any other texts. */
export async function estimateContent(
  blocks: Block[],
  count: CountTokens,
  otherTexts: string[] = [],
): Promise<ExpectedInput> {
  const texts = [...blocks.map(getText).filter(text => text !== ''), ...otherTexts]
  const tokens = texts.length === 0 ? 0 : await count(texts)
  const sum = (tokensOf: (block: Block) => number) =>
    blocks.reduce((all, block) => all + tokensOf(block), 0)
  return {
    text: tokens + sum(estimateImageOrFile),
    audio: sum(estimateAudio),
    video: sum(estimateVideo),
  }
}

/** What a conversation has besides plain text: the bits of the features of its facts. */
export const IMAGE = 1
export const AUDIO = 2
export const VIDEO = 4
export const FILE = 8
export const REASONING = 16
/** Content without a type of its own. */
export const OTHER = 32
/** Fields that the gateway does not know, in a block. */
export const EXTRA = 64
/** The same, in a call of a tool. */
export const CALL_EXTRA = 128
/** Names of those who speak. */
export const NAMES = 256

/** What may refer to something outside, or hold fields that are sent as they came. */
export const RICH = IMAGE | AUDIO | VIDEO | FILE | OTHER | EXTRA

const FEATURES: Record<Block['type'], number> = {
  ...{ text: 0, 'tool-call': 0, refusal: 0 },
  image: IMAGE,
  audio: AUDIO,
  video: VIDEO,
  file: FILE,
  reasoning: REASONING,
  other: OTHER,
}

/** What is asked of a conversation wherever a call goes, so that its messages are read once. */
interface Facts {
  /** Whichever of `IMAGE`, `FILE`, … it has. */
  features: number
  /** The fewest tokens that its texts may have, in any language. */
  leastTokens: number
  /** A generous estimate of its tokens. */
  expected: ExpectedInput
  /** The most tokens that it can have. */
  largest: ExpectedInput
}

const known = new WeakMap<Message[], Facts>()

/** Returns the facts of a conversation. Whoever changes one makes a new list, which has its own. */
export function getFacts(messages: Message[]): Facts {
  let facts = known.get(messages)
  if (!facts) {
    facts = readFacts(messages)
    known.set(messages, facts)
  }
  return facts
}

// Most blocks are plain texts, whose tokens are the same in each estimate.
function readFacts(messages: Message[]): Facts {
  const expected = { text: PER_MESSAGE * messages.length, audio: 0, video: 0 }
  const largest = { ...expected }
  let [features, bytes, plainTokens] = [0, 0, 0]
  for (const message of messages) {
    if (message.name !== undefined) features |= NAMES
    if (message.name !== undefined || message.extra) largest.text += boundFields(message)
    for (const block of message.blocks) {
      if (block.type === 'text' && !block.extra) {
        const length = Buffer.byteLength(block.text)
        bytes += length
        plainTokens += Math.ceil(length / BYTES_PER_TOKEN)
        continue
      }
      features |= readFeatures(block)
      bytes += Buffer.byteLength(getText(block))
      addBlockBound(expected, block)
      addLargestBlock(largest, block)
    }
  }
  expected.text += plainTokens
  largest.text += plainTokens
  return { features, leastTokens: Math.floor(bytes / LONGEST_TOKEN), expected, largest }
}

const boundFields = ({ name = '', extra }: Message): number =>
  boundTokens(name) + boundJsonTokens(extra)

function readFeatures(block: Block): number {
  const feature = FEATURES[block.type]
  if (!('extra' in block && block.extra)) return feature
  return feature | EXTRA | (block.type === 'tool-call' ? CALL_EXTRA : 0)
}

// Words of Indian scripts are the longest, with about nine bytes per token.
const LONGEST_TOKEN = 12

/** Computes a generous estimate of a prompt's tokens immediately, from the lengths of its texts. */
export function computePromptBound({
  messages,
  tools,
}: Pick<TextCall, 'messages' | 'tools'>): ExpectedInput {
  const { text, audio, video } = getFacts(messages).expected
  return { text: text + boundTools(tools) + PER_ANSWER, audio, video }
}

/** Computes the same for content blocks. */
export function computeContentBound(blocks: Block[]): ExpectedInput {
  const bound = { text: 0, audio: 0, video: 0 }
  for (const block of blocks) addBlockBound(bound, block)
  return bound
}

function addBlockBound(bound: ExpectedInput, block: Block): void {
  bound.text += boundTokens(getText(block)) + estimateImageOrFile(block)
  bound.audio += estimateAudio(block)
  bound.video += estimateVideo(block)
}

/**
 * Computes the most tokens that a prompt can have, except for texts chosen to have many tokens.
 * Counts everything that is sent, even fields that the gateway does not interpret. Content that is
 * only referenced counts as the largest possible.
 */
export function computeLargestPrompt({
  messages,
  tools,
  extra,
  params: { response_format, web_search_options },
}: TextCall): ExpectedInput {
  const { text, audio, video } = getFacts(messages).largest
  const otherTokens =
    boundTools(tools) +
    boundJsonTokens(extra) +
    boundJsonTokens(response_format) +
    boundJsonTokens(web_search_options)
  return { text: text + otherTokens + PER_ANSWER, audio, video }
}

/** Computes the same for content blocks. */
export function computeLargestContent(blocks: Block[]): ExpectedInput {
  const largest = { text: 0, audio: 0, video: 0 }
  for (const block of blocks) addLargestBlock(largest, block)
  return largest
}

function addLargestBlock(largest: ExpectedInput, block: Block): void {
  largest.text += computeLargestText(block)
  if (block.type === 'audio')
    largest.audio += Math.ceil((computeByteLength(block.data) / MIN_AUDIO_BYTES) * AUDIO_PER_SECOND)
  if (block.type === 'video')
    largest.video += Math.ceil(VIDEO_PER_SECOND * computeLongestSeconds(block.url))
}

function computeLargestText(block: Block): number {
  if (block.type === 'other') return boundJsonTokens(block.value)
  if (block.type === 'reasoning')
    return Math.max(boundTokens(block.text ?? ''), boundJsonTokens(block.details))
  const extraTokens = 'extra' in block ? boundJsonTokens(block.extra) : 0
  if (block.type === 'image')
    return extraTokens + (block.detail === 'low' ? LOW_DETAIL_IMAGE : LARGEST_IMAGE)
  return (
    extraTokens +
    (block.type === 'file' ? computeLargestFile(block.file.file_data) : boundTokens(getText(block)))
  )
}

/** The most tokens of an image (Anthropic's guide, "Vision"). */
export const LARGEST_IMAGE = 4_784

// A referenced file may have any size up to what providers accept. Text in a file counts as text.
function computeLargestFile(data = ''): number {
  const most = MAX_PAGES * LARGEST_PAGE
  if (!data.startsWith('data:')) return most
  // No file is estimated at less than a page.
  const tokens = Math.max(Math.ceil(computeByteLength(data) / BYTES_PER_TOKEN), PER_PAGE)
  return data.startsWith('data:text/') ? tokens : Math.min(tokens, most)
}

// Telephone codecs still carry intelligible speech, and videos that hardly move take little more.
// Google accepts at most an hour of video.
const MIN_AUDIO_BYTES = 2_000
const MIN_VIDEO_BYTES = 50_000
const LONGEST_VIDEO = 3_600

const computeLongestSeconds = (url: string) =>
  url.startsWith('data:')
    ? Math.min(Math.max(computeByteLength(url) / MIN_VIDEO_BYTES, MIN_SECONDS), LONGEST_VIDEO)
    : LONGEST_VIDEO

// Ordinary text has four bytes or more per token, code and most other scripts have three.
const BYTES_PER_TOKEN = 3
/** Returns a generous estimate of a text's tokens. */
export const boundTokens = (text: string): number =>
  Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)

const toolTokens = new WeakMap<Tool[], number>()

// An agent's are long, and the same at each endpoint of its call.
function boundTools(tools: Tool[]): number {
  if (tools.length === 0) return 0
  const tokens = toolTokens.get(tools) ?? boundJsonTokens(tools)
  toolTokens.set(tools, tokens)
  return tokens
}

/** Returns a generous estimate of the tokens of a value's JSON. Most calls have no such values. */
export function boundJsonTokens(value: unknown): number {
  if (value == null || (Array.isArray(value) && value.length === 0)) return 0
  for (const _ in value as object) return Math.ceil(countJsonBytes(value) / BYTES_PER_TOKEN)
  return 0
}

// OpenAI's cookbook, "How to count tokens": three tokens frame each message, and three more start
// the answer.
const PER_MESSAGE = 3
const PER_ANSWER = 3

function getText(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block && block.text !== null ? block.text : ''
}

// OpenAI's guide, "Images and vision": 85 for an image in low detail, 765 for one of 1024 by 1024
// pixels. Anthropic's rule of one token per 750 pixels gives 1,398 for the same image.
const PER_IMAGE = 765
const LOW_DETAIL_IMAGE = 85

function estimateImageOrFile(block: Block): number {
  if (block.type === 'image') return block.detail === 'low' ? LOW_DETAIL_IMAGE : PER_IMAGE
  return block.type === 'file' ? PER_PAGE * estimatePages(block.file.file_data) : 0
}

// Anthropic's guide, "PDF support": 1,500 to 3,000 tokens a page, and at most 100 pages. A page is
// assumed to have 50 KB.
const PER_PAGE = 1_500
const LARGEST_PAGE = 3_000
const PAGE_BYTES = 50_000
const MAX_PAGES = 100

const estimatePages = (data = '') =>
  Math.min(Math.max(Math.ceil(computeByteLength(data) / PAGE_BYTES), 1), MAX_PAGES)

// Google's guide, "Audio understanding": 32 tokens a second. A second takes 48 KB of WAV (24 kHz,
// 16 bit, mono), or 16 KB of any compressed format (128 kbit/s).
const AUDIO_PER_SECOND = 32
const WAV_BYTES = 48_000
const COMPRESSED_BYTES = 16_000

function estimateAudio(block: Block): number {
  if (block.type !== 'audio') return 0
  const uncompressed = block.format === 'wav' || block.format.startsWith('pcm')
  return Math.ceil(
    (computeByteLength(block.data) / (uncompressed ? WAV_BYTES : COMPRESSED_BYTES)) *
      AUDIO_PER_SECOND,
  )
}

// Google's guide, "Video understanding": about 300 tokens a second, including sound. A second is
// assumed to have 300 KB (2.4 Mbit/s). A referenced video is assumed to last ten seconds.
const VIDEO_PER_SECOND = 300
const VIDEO_BYTES = 300_000
const MIN_SECONDS = 10

function estimateVideo(block: Block): number {
  if (block.type !== 'video') return 0
  return Math.ceil(
    VIDEO_PER_SECOND * Math.max(computeByteLength(block.url) / VIDEO_BYTES, MIN_SECONDS),
  )
}

const computeByteLength = (base64: string) => (base64.length * 3) / 4
