import type { Block, TextCall } from '../../call.ts'
import type { Counter, ExpectedInput } from '../../kinds.ts'

/**
 * What a prompt comes to where its provider did not count it: the tokens of its texts and tools, and what frames them. Of
 * pictures, sound, films and files the sizes are not known, so each has a constant or a rate that vendors publish.
 */
export async function promptEstimate({ turns, tools }: TextCall, count: Counter): Promise<ExpectedInput> {
  const blocks = turns.flatMap(turn => turn.blocks)
  const { text, ...rest } = await contentEstimate(blocks, count, tools.length > 0 ? [JSON.stringify(tools)] : [])
  return { text: text + PER_TURN * turns.length + PER_ANSWER, ...rest }
}

/** What these blocks come to, and the texts that stand beside them. */
export async function contentEstimate(blocks: Block[], count: Counter, beside: string[] = []): Promise<ExpectedInput> {
  const texts = [...blocks.map(textOf).filter(text => text !== ''), ...beside]
  const tokens = texts.length === 0 ? 0 : await count(texts)
  const sum = (tokensOf: (block: Block) => number) => blocks.reduce((all, block) => all + tokensOf(block), 0)
  return { text: tokens + sum(pictureOrFile), audio: sum(sound), video: sum(film) }
}

/** What a prompt comes to at the most, but for texts that are chosen to be many tokens: at once, from the lengths of its texts. */
export function promptBound({ turns, tools }: TextCall): ExpectedInput {
  const { text, ...rest } = contentBound(turns.flatMap(turn => turn.blocks))
  const described = tools.length > 0 ? tokensIn(JSON.stringify(tools)) : 0
  return { text: text + described + PER_TURN * turns.length + PER_ANSWER, ...rest }
}

/** The same of these blocks. */
export function contentBound(blocks: Block[]): ExpectedInput {
  const bound = { text: 0, audio: 0, video: 0 }
  for (const block of blocks) {
    bound.text += tokensIn(textOf(block)) + pictureOrFile(block)
    bound.audio += sound(block)
    bound.video += film(block)
  }
  return bound
}

// Ordinary text has four bytes and more to a token, code and most other scripts three.
const BYTES_PER_TOKEN = 3
const tokensIn = (text: string): number => Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN)

// OpenAI's cookbook, "How to count tokens": every message is framed by three tokens, and so is the beginning of the answer.
const PER_TURN = 3
const PER_ANSWER = 3

function textOf(block: Block): string {
  if (block.type === 'tool-call') return `${block.name} ${block.input}`
  return 'text' in block && block.text !== null ? block.text : ''
}

// OpenAI's guide, "Images and vision": 85 for a picture in low detail, 765 for one of 1024 by 1024 pixels. Anthropic's rule,
// a token for each 750 pixels, makes 1,398 of the same.
const PICTURE = 765
const PICTURE_IN_LOW_DETAIL = 85

function pictureOrFile(block: Block): number {
  if (block.type === 'image') return block.detail === 'low' ? PICTURE_IN_LOW_DETAIL : PICTURE
  return block.type === 'file' ? PER_PAGE * pages(block.file.file_data) : 0
}

// Anthropic's guide, "PDF support": 1,500 to 3,000 tokens a page, and no more than 100 pages. A page is taken for 50 KB.
const PER_PAGE = 1_500
const PAGE_BYTES = 50_000
const MOST_PAGES = 100

const pages = (data = '') => Math.min(Math.max(Math.ceil(bytesOf(data) / PAGE_BYTES), 1), MOST_PAGES)

// Google's guide, "Audio understanding": 32 tokens a second. A second is 48 KB of WAV (24 kHz, 16 bit, mono), or 16 KB of
// anything compressed (128 kbit/s).
const PER_SECOND = 32
const WAV_BYTES = 48_000
const COMPRESSED_BYTES = 16_000

function sound(block: Block): number {
  if (block.type !== 'audio') return 0
  const uncompressed = block.format === 'wav' || block.format.startsWith('pcm')
  return Math.ceil((bytesOf(block.data) / (uncompressed ? WAV_BYTES : COMPRESSED_BYTES)) * PER_SECOND)
}

// Google's guide, "Video understanding": about 300 tokens a second with its sound. A second is 300 KB (2.4 Mbit/s); one that is
// elsewhere is taken for ten.
const FILM_PER_SECOND = 300
const FILM_BYTES = 300_000
const LEAST_SECONDS = 10

function film(block: Block): number {
  if (block.type !== 'video') return 0
  return Math.ceil(FILM_PER_SECOND * Math.max(bytesOf(block.url) / FILM_BYTES, LEAST_SECONDS))
}

const bytesOf = (base64: string) => (base64.length * 3) / 4
