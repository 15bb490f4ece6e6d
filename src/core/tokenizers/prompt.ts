import type { TextCall } from '../language/call.ts'
import type { Block } from '../language/message.ts'
import type { Usage } from '../language/usage.ts'

/** Counts the tokens of texts as the answering model would. */
export type Counter = (texts: string[]) => Promise<number>

/** The tokens of a prompt by modality, as far as modalities have their own prices. */
export type ExpectedInput = Pick<Usage['input'], 'text' | 'audio' | 'video'>

/**
 * Estimates the tokens of a prompt that its provider did not count: its texts, its tools and the
 * framing. The sizes of images, audio, videos and files are unknown, so each gets a constant or a
 * rate that vendors publish.
 */
export async function promptEstimate(
  { turns, tools }: TextCall,
  count: Counter,
): Promise<ExpectedInput> {
  const blocks = turns.flatMap(turn => turn.blocks)
  const { text, ...rest } = await contentEstimate(
    blocks,
    count,
    tools.length > 0 ? [JSON.stringify(tools)] : [],
  )
  return { text: text + PER_TURN * turns.length + PER_ANSWER, ...rest }
}

/** Estimates the tokens of content blocks and of any other texts. */
export async function contentEstimate(
  blocks: Block[],
  count: Counter,
  beside: string[] = [],
): Promise<ExpectedInput> {
  const texts = [...blocks.map(textOf).filter(text => text !== ''), ...beside]
  const tokens = texts.length === 0 ? 0 : await count(texts)
  const sum = (tokensOf: (block: Block) => number) =>
    blocks.reduce((all, block) => all + tokensOf(block), 0)
  return { text: tokens + sum(pictureOrFile), audio: sum(sound), video: sum(film) }
}

/** Computes a generous estimate of a prompt's tokens immediately, from the lengths of its texts. */
export function promptBound({ turns, tools }: TextCall): ExpectedInput {
  const described = tools.length > 0 ? tokensIn(JSON.stringify(tools)) : 0
  const bound = { text: described + PER_TURN * turns.length + PER_ANSWER, audio: 0, video: 0 }
  for (const { blocks } of turns) addBound(bound, blocks)
  return bound
}

/** Computes the same for content blocks. */
export const contentBound = (blocks: Block[]): ExpectedInput =>
  addBound({ text: 0, audio: 0, video: 0 }, blocks)

function addBound(bound: ExpectedInput, blocks: Block[]): ExpectedInput {
  for (const block of blocks) {
    bound.text += tokensIn(textOf(block)) + pictureOrFile(block)
    bound.audio += sound(block)
    bound.video += film(block)
  }
  return bound
}

/**
 * Computes the most tokens that a prompt can have, except for texts chosen to have many tokens.
 * Counts everything that is sent, even fields that the gateway does not interpret. Content that is
 * only referenced counts as the largest possible.
 */
export function largestPrompt({
  turns,
  tools,
  extra,
  params: { response_format, web_search_options },
}: TextCall): ExpectedInput {
  const beside =
    tokensInJson(tools) +
    tokensInJson(extra) +
    tokensInJson(response_format) +
    tokensInJson(web_search_options)
  const largest = { text: beside + PER_ANSWER, audio: 0, video: 0 }
  for (const turn of turns) {
    largest.text += PER_TURN + tokensIn(turn.name ?? '') + tokensInJson(turn.extra)
    addLargest(largest, turn.blocks)
  }
  return largest
}

/** Computes the same for content blocks. */
export const largestContent = (blocks: Block[]): ExpectedInput =>
  addLargest({ text: 0, audio: 0, video: 0 }, blocks)

function addLargest(largest: ExpectedInput, blocks: Block[]): ExpectedInput {
  for (const block of blocks) {
    largest.text += largestText(block)
    if (block.type === 'audio')
      largest.audio += Math.ceil((bytesOf(block.data) / LEAST_SOUND_BYTES) * PER_SECOND)
    if (block.type === 'video') largest.video += Math.ceil(FILM_PER_SECOND * longest(block.url))
  }
  return largest
}

function largestText(block: Block): number {
  if (block.type === 'other') return tokensInJson(block.value)
  if (block.type === 'reasoning')
    return Math.max(tokensIn(block.text ?? ''), tokensInJson(block.details))
  const beside = 'extra' in block ? tokensInJson(block.extra) : 0
  if (block.type === 'image')
    return beside + (block.detail === 'low' ? PICTURE_IN_LOW_DETAIL : LARGEST_PICTURE)
  return (
    beside + (block.type === 'file' ? largestFile(block.file.file_data) : tokensIn(textOf(block)))
  )
}

/** The most tokens of an image (Anthropic's guide, "Vision"). */
export const LARGEST_PICTURE = 4_784

// A referenced file may have any size up to what providers accept. Text in a file counts as text.
function largestFile(data = ''): number {
  const most = MOST_PAGES * LARGEST_PAGE
  if (!data.startsWith('data:')) return most
  const tokens = Math.ceil(bytesOf(data) / BYTES_PER_TOKEN)
  return data.startsWith('data:text/') ? tokens : Math.min(tokens, most)
}

// Telephone codecs still carry intelligible speech, and videos that hardly move take little more.
// Google accepts at most an hour of video.
const LEAST_SOUND_BYTES = 2_000
const LEAST_FILM_BYTES = 50_000
const LONGEST_FILM = 3_600

const longest = (url: string) =>
  url.startsWith('data:')
    ? Math.min(Math.max(bytesOf(url) / LEAST_FILM_BYTES, LEAST_SECONDS), LONGEST_FILM)
    : LONGEST_FILM

// Ordinary text has four bytes or more per token, code and most other scripts have three.
const BYTES_PER_TOKEN = 3
/** Returns a generous estimate of a text's tokens. */
export const tokensIn = (text: string): number =>
  Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)

// Most calls have none of these fields.
function tokensInJson(value: unknown): number {
  for (const _ in value as object) return tokensIn(JSON.stringify(value))
  return 0
}

// OpenAI's cookbook, "How to count tokens": three tokens frame each message, and three more start
// the answer.
const PER_TURN = 3
const PER_ANSWER = 3

function textOf(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block && block.text !== null ? block.text : ''
}

// OpenAI's guide, "Images and vision": 85 for an image in low detail, 765 for one of 1024 by 1024
// pixels. Anthropic's rule of one token per 750 pixels gives 1,398 for the same image.
const PICTURE = 765
const PICTURE_IN_LOW_DETAIL = 85

function pictureOrFile(block: Block): number {
  if (block.type === 'image') return block.detail === 'low' ? PICTURE_IN_LOW_DETAIL : PICTURE
  return block.type === 'file' ? PER_PAGE * pages(block.file.file_data) : 0
}

// Anthropic's guide, "PDF support": 1,500 to 3,000 tokens a page, and at most 100 pages. A page is
// assumed to have 50 KB.
const PER_PAGE = 1_500
const LARGEST_PAGE = 3_000
const PAGE_BYTES = 50_000
const MOST_PAGES = 100

const pages = (data = '') =>
  Math.min(Math.max(Math.ceil(bytesOf(data) / PAGE_BYTES), 1), MOST_PAGES)

// Google's guide, "Audio understanding": 32 tokens a second. A second takes 48 KB of WAV (24 kHz,
// 16 bit, mono), or 16 KB of any compressed format (128 kbit/s).
const PER_SECOND = 32
const WAV_BYTES = 48_000
const COMPRESSED_BYTES = 16_000

function sound(block: Block): number {
  if (block.type !== 'audio') return 0
  const uncompressed = block.format === 'wav' || block.format.startsWith('pcm')
  return Math.ceil(
    (bytesOf(block.data) / (uncompressed ? WAV_BYTES : COMPRESSED_BYTES)) * PER_SECOND,
  )
}

// Google's guide, "Video understanding": about 300 tokens a second, including sound. A second is
// assumed to have 300 KB (2.4 Mbit/s). A referenced video is assumed to last ten seconds.
const FILM_PER_SECOND = 300
const FILM_BYTES = 300_000
const LEAST_SECONDS = 10

function film(block: Block): number {
  if (block.type !== 'video') return 0
  return Math.ceil(FILM_PER_SECOND * Math.max(bytesOf(block.url) / FILM_BYTES, LEAST_SECONDS))
}

const bytesOf = (base64: string) => (base64.length * 3) / 4
