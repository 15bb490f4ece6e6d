import {
  decodeMediaText,
  isDataUrl,
  looksLikeText,
  parseDataUrl,
  readCharset,
} from '../../base/data-url.ts'
import { isObject, type Json, parseExact } from '../../base/json.ts'
import type { Block, Role } from '../../language/message.ts'
import type { TextRewrite } from '../../language/text-segment.ts'

/** How texts are rewritten, and whose they are. */
export interface Rewriter {
  role: Role
  rewriteSegment: TextRewrite
}

/** Rewrites the contents of a call as texts of the user. Each list is read as one. */
export function rewriteContents(
  contents: Block[][],
  rewriteSegment: TextRewrite,
): Promise<Block[][]> {
  return rewriteEach(contents, blocks => rewriteBlocks(blocks, { role: 'user', rewriteSegment }))
}

/**
 * Rewrites every text in the blocks that may have been typed: words, arguments and results of
 * tools, text files, addresses. Images, audio and other files are not inspected. Blocks of text are
 * read as one, since models read them that way.
 */
export async function rewriteBlocks(blocks: Block[], rewriter: Rewriter): Promise<Block[]> {
  const texts = blocks.filter(block => block.type === 'text')
  const words = await rewritePieces(
    texts.map(({ text }) => text),
    rewriter,
  )
  const wordsOf = new Map<Block, string>(texts.map((block, i) => [block, words[i] ?? '']))
  return rewriteEach(blocks, block => rewriteBlock(block, wordsOf.get(block) ?? '', rewriter))
}

async function rewritePieces(
  pieces: string[],
  { role, rewriteSegment }: Rewriter,
): Promise<string[]> {
  return pieces.length === 0 ? [] : rewriteSegment({ role, pieces, isJson: false })
}

async function rewriteBlock(block: Block, words: string, rewriter: Rewriter): Promise<Block> {
  switch (block.type) {
    case 'text':
      return rewriteExtra({ ...block, text: words }, rewriter)
    case 'refusal':
      return { ...block, text: await rewriteText(block.text, rewriter) }
    case 'tool-call':
      return rewriteExtra(await rewriteToolCall(block, rewriter), rewriter)
    case 'reasoning':
      return rewriteReasoning(block, rewriter)
    case 'image':
    case 'video':
      return rewriteExtra({ ...block, url: await rewriteAddress(block.url, rewriter) }, rewriter)
    case 'file':
      return rewriteExtra(await rewriteFileBlock(block, rewriter), rewriter)
    case 'other':
      return { ...block, value: await rewriteValue(block.value, rewriter) }
    case 'audio':
      return block
  }
}

type ToolCall = Extract<Block, { type: 'tool-call' }>

const rewriteToolCall = async (block: ToolCall, rewriter: Rewriter): Promise<ToolCall> => ({
  ...block,
  id: await rewriteText(block.id, rewriter),
  name: await rewriteText(block.name, rewriter),
  input: await rewriteJson(block.input, rewriter),
})

interface Extra {
  extra?: Json
}

/** Rewrites the extra fields of a block or a message. Returns it at once if it has none. */
export function rewriteExtra<T extends Extra>(item: T, rewriter: Rewriter): T | Promise<T> {
  return item.extra === undefined ? item : rewritePresentExtra(item, item.extra, rewriter)
}

const rewritePresentExtra = async <T extends Extra>(
  item: T,
  extra: Json,
  rewriter: Rewriter,
): Promise<T> => ({ ...item, extra: await rewriteValue(extra, rewriter) })

type ReasoningBlock = Extract<Block, { type: 'reasoning' }>

// A signature covers the original words: with others it would be refused, so it is removed.
async function rewriteReasoning(
  block: ReasoningBlock,
  rewriter: Rewriter,
): Promise<ReasoningBlock> {
  const text = block.text === null ? null : await rewriteText(block.text, rewriter)
  const rewrite = <D extends Json>(detail: D) => rewriteDetail(detail, rewriter)
  return { ...block, text, details: block.details && (await rewriteEach(block.details, rewrite)) }
}

async function rewriteDetail<D extends Json>(detail: D, rewriter: Rewriter): Promise<D> {
  const rewritten: Json = { ...detail }
  for (const field of ['text', 'summary']) {
    const words = detail[field]
    if (typeof words === 'string') rewritten[field] = await rewriteText(words, rewriter)
  }
  // What a provider's own tool was asked and has answered goes back to the model too.
  for (const field of ['arguments', 'result']) {
    const words = detail[field]
    if (typeof words === 'string') rewritten[field] = await rewriteJson(words, rewriter)
  }
  if (Object.keys(detail).every(field => rewritten[field] === detail[field])) return detail
  const { signature: _, ...unsigned } = rewritten
  return unsigned as D
}

type FileBlock = Extract<Block, { type: 'file' }>
type File = FileBlock['file']

// The bytes of a document are not read. If its words are changed, only the words go out.
async function rewriteFileBlock(block: FileBlock, rewriter: Rewriter): Promise<FileBlock> {
  const file = await rewriteFile(block.file, rewriter)
  if (!block.parsed) return { ...block, file }
  const { type, blocks } = block.parsed
  const rewritten = await rewriteBlocks(blocks, rewriter)
  const parsed = { type, blocks: rewritten }
  if (Bun.deepEquals(rewritten, blocks)) return { ...block, file, parsed }
  const { file_data: _, file_id: __, ...named } = file
  return { ...block, file: named, parsed }
}

async function rewriteFile(file: File, rewriter: Rewriter): Promise<File> {
  const { filename, file_data } = file
  const rewritten = { ...file }
  if (filename !== undefined) rewritten.filename = await rewriteText(filename, rewriter)
  if (file_data !== undefined) rewritten.file_data = await rewriteAddress(file_data, rewriter)
  return rewritten
}

const MARKUP =
  /^data:(?:application|image)\/(?:(?:[\w.-]+\+)?(?:json|xml)|(?:x-)?yaml|x-ndjson|javascript)/i
const TEXT = /^data:(?:text\/|[,;])/i
/** Types that are never text, and PDF, which is not read. */
const MEDIA = /^data:(?:image|audio|video|font)\/|^data:application\/pdf/i

/** Rewrites an address, or a text file in a data URL; other data URLs stay as they are. */
async function rewriteAddress(url: string, rewriter: Rewriter): Promise<string> {
  if (!isDataUrl(url)) return rewriteText(url, rewriter)
  const head = url.slice(0, 200)
  const isText = TEXT.test(head) || MARKUP.test(head)
  if (!isText && MEDIA.test(head)) return url
  const media = parseDataUrl(url)
  if (!isText && !looksLikeText(media.data)) return url
  const text = decodeMediaText(media, readCharset(head))
  const rewrite = media.media_type.endsWith('json') ? rewriteJson : rewriteText
  const words = await rewrite(text, rewriter)
  if (words === text) return url
  return `data:${media.media_type};base64,${Buffer.from(words).toString('base64')}`
}

/** Rewrites the texts in a value of unknown shape. */
export async function rewriteValue<V>(value: V, rewriter: Rewriter): Promise<V> {
  if (!hasText(value)) return value
  const json = JSON.stringify(value)
  const words = await rewriteJson(json, rewriter)
  return words === json ? value : (parseExact(words) as V)
}

function hasText(value: unknown): boolean {
  if (isObject(value)) return Object.keys(value).length > 0
  return Array.isArray(value) || typeof value === 'string'
}

export const rewriteText = async (
  text: string,
  { role, rewriteSegment }: Rewriter,
): Promise<string> => (await rewriteSegment({ role, pieces: [text], isJson: false }))[0] ?? ''

const rewriteJson = async (json: string, { role, rewriteSegment }: Rewriter): Promise<string> =>
  (await rewriteSegment({ role, pieces: [json], isJson: true }))[0] ?? ''

/** Rewrites items one after the other, so that findings are noted in the order of the call. */
export async function rewriteEach<T>(items: T[], rewrite: (item: T) => Promise<T>): Promise<T[]> {
  const rewritten: T[] = []
  for (const item of items) rewritten.push(await rewrite(item))
  return rewritten
}
