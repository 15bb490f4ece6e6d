import { countJsonBytes } from '../kernel/json-bytes.ts'
import type { TextCall } from '../language/call.ts'
import type { Block } from '../language/message.ts'
import type { Usage } from '../language/usage.ts'

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

/** Computes a generous estimate of a prompt's tokens immediately, from the lengths of its texts. */
export function computePromptBound({
  messages,
  tools,
}: Pick<TextCall, 'messages' | 'tools'>): ExpectedInput {
  const described = tools.length > 0 ? boundJsonTokens(tools) : 0
  const bound = { text: described + PER_MESSAGE * messages.length + PER_ANSWER, audio: 0, video: 0 }
  for (const { blocks } of messages) addBlockBounds(bound, blocks)
  return bound
}

/** Computes the same for content blocks. */
export const computeContentBound = (blocks: Block[]): ExpectedInput =>
  addBlockBounds({ text: 0, audio: 0, video: 0 }, blocks)

function addBlockBounds(bound: ExpectedInput, blocks: Block[]): ExpectedInput {
  for (const block of blocks) {
    bound.text += boundTokens(getText(block)) + estimateImageOrFile(block)
    bound.audio += estimateAudio(block)
    bound.video += estimateVideo(block)
  }
  return bound
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
  const otherTokens =
    boundJsonTokens(tools) +
    boundJsonTokens(extra) +
    boundJsonTokens(response_format) +
    boundJsonTokens(web_search_options)
  const largest = { text: otherTokens + PER_ANSWER, audio: 0, video: 0 }
  for (const message of messages) {
    largest.text += PER_MESSAGE + boundTokens(message.name ?? '') + boundJsonTokens(message.extra)
    addLargestBlocks(largest, message.blocks)
  }
  return largest
}

/** Computes the same for content blocks. */
export const computeLargestContent = (blocks: Block[]): ExpectedInput =>
  addLargestBlocks({ text: 0, audio: 0, video: 0 }, blocks)

function addLargestBlocks(largest: ExpectedInput, blocks: Block[]): ExpectedInput {
  for (const block of blocks) {
    largest.text += computeLargestText(block)
    if (block.type === 'audio')
      largest.audio += Math.ceil(
        (computeByteLength(block.data) / MIN_AUDIO_BYTES) * AUDIO_PER_SECOND,
      )
    if (block.type === 'video')
      largest.video += Math.ceil(VIDEO_PER_SECOND * computeLongestSeconds(block.url))
  }
  return largest
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

// Words of Indian scripts are the longest, with about nine bytes per token.
const LONGEST_TOKEN = 12

/** Computes the fewest tokens that the texts of a prompt may have, in any language. */
export function computeLeastPrompt({ messages }: Pick<TextCall, 'messages'>): number {
  let bytes = 0
  for (const { blocks } of messages)
    for (const block of blocks) bytes += Buffer.byteLength(getText(block))
  return Math.floor(bytes / LONGEST_TOKEN)
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
const IMAGE = 765
const LOW_DETAIL_IMAGE = 85

function estimateImageOrFile(block: Block): number {
  if (block.type === 'image') return block.detail === 'low' ? LOW_DETAIL_IMAGE : IMAGE
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
