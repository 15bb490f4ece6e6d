import { yieldToEventLoop } from '../../../base/clock.ts'
import { decodeMediaText, parseDataUrl, readCharset } from '../../../base/data-url.ts'
import { GatewayError, invalid } from '../../../base/errors.ts'
import { LARGEST_BODY } from '../../../base/schema-builders.ts'
import type { MediaReference } from '../../../engine/kinds/media.ts'
import type { PipelineStage } from '../../../engine/plan/candidates.ts'
import type { Run } from '../../../engine/run.ts'
import type { DocumentText } from '../../../engine/traffic/read-documents.ts'
import type { Block, Message, ParsedFile } from '../../../language/message.ts'
import { mayRetainNothing } from '../../../limits/zdr.ts'
import { createAsker } from '../../asker.ts'
import { fetchMissing } from '../../media.ts'
import type { ExtensionWorld } from '../../world.ts'

const MEBIBYTE = 1024 * 1024

/** What is known of a document, and how more is remembered. */
interface Memory {
  /** What it says; null if that is not remembered. */
  known: DocumentText | null
  remember(document: DocumentText): void
}

/**
 * Recalls what a document says that the same key has sent before, for those clients and APIs that
 * do not send its annotation back. What a call wants nowhere retained is not remembered.
 */
export function recall(world: ExtensionWorld, run: Run, way: 'text' | 'ocr', data: string): Memory {
  const { traffic, config, clock } = world
  const most = config.plugins.read_documents_mib * MEBIBYTE
  if (most === 0 || run.isDry || mayRetainNothing(world, run.policy.zdr, run.call)) return NOTHING
  const hash = Bun.CryptoHasher.hash('sha256', data, 'hex')
  const name = `${way} ${run.actor.key_hash ?? ''} ${hash}`
  return {
    known: traffic.readDocuments.find(name, clock.ticks()),
    remember: document => traffic.readDocuments.keep(name, document, { now: clock.ticks(), most }),
  }
}

const NOTHING: Memory = { known: null, remember: () => undefined }

/** The files of one conversation that are read for one call. */
const MOST_FILES = 64

/** What to parse, and how. */
interface ParsingOptions {
  messages: Message[]
  /** The words of files that were parsed for an earlier call, by their hash. */
  known: Map<string, ParsedFile>
  /** Whether PDFs are left to models that read them. */
  leavesPdfs: boolean
  /** Whether the text of PDFs is for a service to recognize. */
  recognizesPdfs: boolean
  /** Whether a PDF that cannot be parsed is left to models that read it. */
  mayFail: boolean
}

/** A PDF whose text is still to be recognized: `parsed` has none of it yet. */
export interface UnrecognizedFile {
  /** Its data URL. */
  url: string
  pages: number
  parsed: ParsedFile
  report: FileReport
  /** Remembers what is recognized for the next call. */
  remember(document: DocumentText): void
}

/** A file that was looked at, as the caller may see it. */
interface FileReport {
  name: string
  type?: string
  characters?: number
  /** The service that has recognized its text. */
  engine?: string
  is_cut?: boolean
  /** Whether its words came with the call. */
  reused?: boolean
  /** Why it was not read. */
  skipped?: string
}

type FileBlock = Extract<Block, { type: 'file' }>

/**
 * Parses the files of a conversation, each once, and returns it with their words beside them. Throws
 * 400 for what cannot be fetched or read, and for too many words. In a dry run nothing is fetched:
 * such a file has no words.
 */
export async function parseFiles(
  world: ExtensionWorld,
  run: Run,
  options: ParsingOptions,
): Promise<{ messages: Message[]; stage: PipelineStage | null; unrecognized: UnrecognizedFile[] }> {
  const parser = new FileParser(world, run, options)
  await parser.fetchFiles()
  const messages: Message[] = []
  for (const message of options.messages) messages.push(await parser.parseMessage(message))
  checkWords(messages)
  return { messages, stage: buildStage(parser.reports), unrecognized: parser.unrecognized }
}

/**
 * Throws 400 for more words of files than a body may have: a file is read once, but a model gets its
 * words wherever it stands.
 */
export function checkWords(messages: Message[]): void {
  let characters = 0
  for (const { blocks } of messages)
    for (const block of blocks)
      if (block.type === 'file')
        for (const words of block.parsed?.blocks ?? [])
          if (words.type === 'text') characters += words.text.length
  if (characters > LARGEST_BODY)
    throw invalid(`The files of the request: expected at most ${LARGEST_BODY} characters of text`)
}

/** Computes what a file is known by in a conversation: the hash of what the client sent. */
export const hashFile = (file_data: string): string =>
  Bun.CryptoHasher.hash('sha256', file_data, 'hex')

class FileParser {
  readonly #world: ExtensionWorld
  readonly #run: Run
  readonly #options: ParsingOptions
  readonly #parsed = new Map<string, ParsedFile | null>()
  readonly reports: FileReport[] = []
  readonly unrecognized: UnrecognizedFile[] = []

  constructor(world: ExtensionWorld, run: Run, options: ParsingOptions) {
    this.#world = world
    this.#run = run
    this.#options = options
  }

  /** Fetches the files that the conversation refers to by URL, and whose words it does not have. */
  async fetchFiles(): Promise<void> {
    const { messages, known } = this.#options
    const files = messages.flatMap(({ blocks }) => blocks.flatMap(readFileData))
    if (new Set(files).size > MOST_FILES)
      throw invalid(`The request has more than ${MOST_FILES} files that have to be read`)
    const references = files.flatMap((url): MediaReference[] =>
      /^https?:/i.test(url) && !known.has(hashFile(url)) ? [{ kind: 'file', url }] : [],
    )
    if (references.length === 0 || this.#run.isDry) return
    const { media, cancellation } = this.#run
    await fetchMissing(this.#world, { media, run: this.#run, cancellation }, references)
  }

  async parseMessage(message: Message): Promise<Message> {
    if (!message.blocks.some(block => readFileData(block).length > 0)) return message
    const blocks: Block[] = []
    for (const block of message.blocks)
      blocks.push(block.type === 'file' ? await this.#parseBlock(block) : block)
    return { ...message, blocks }
  }

  async #parseBlock(block: FileBlock): Promise<Block> {
    const [file_data] = readFileData(block)
    if (file_data === undefined) return block
    const hash = hashFile(file_data)
    const known = this.#options.known.get(hash)
    const name = block.file.filename ?? 'file'
    if (known && !this.#parsed.has(hash)) this.reports.push({ name, reused: true })
    const existing = known ?? this.#parsed.get(hash)
    const parsed = existing === undefined ? await this.#parse(file_data, name) : existing
    this.#parsed.set(hash, parsed)
    return parsed ? { ...block, parsed } : block
  }

  async #parse(file_data: string, name: string): Promise<ParsedFile | null> {
    const url = this.#run.media.get(file_data) ?? file_data
    if (/^https?:/i.test(url)) return { type: 'unknown', blocks: [] }
    const { media_type, data } = parseDataUrl(url)
    if (media_type.startsWith('text/'))
      return this.#report(name, 'text', decodeMediaText({ data }, readCharset(url)))
    if (media_type === PDF && this.#options.leavesPdfs) return null
    await yieldToEventLoop()
    try {
      return await this.#parseDocument(data, name)
    } catch (thrown) {
      if (!this.#options.mayFail || media_type !== PDF) throw thrown
      this.reports.push({ name, type: 'pdf', skipped: GatewayError.from(thrown).message })
      return null
    }
  }

  async #parseDocument(data: string, name: string): Promise<ParsedFile | null> {
    const { known, remember } = recall(this.#world, this.#run, 'text', data)
    const document = known ?? (await this.#readDocument(data, name))
    if (document && !known) remember(document)
    if (!document) throw invalid(`${name}: expected a PDF, DOCX, XLSX, PPTX or text file`)
    const { type, text, isCut } = document
    if (type === 'pdf' && this.#options.leavesPdfs) return null
    if (type === 'pdf' && this.#options.recognizesPdfs)
      return this.#recognize(data, name, document.pages ?? 1)
    if (text === '' && type === 'pdf' && this.#options.mayFail)
      throw invalid(`${name}: no text was found, as in a scan`)
    return this.#report(name, type, text, isCut, known ? { reused: true } : {})
  }

  #readDocument(data: string, name: string): Promise<DocumentText | null> {
    const reading = this.#world.documents.read(
      Uint8Array.fromBase64(data),
      name,
      createAsker(this.#run, this.#run.cancellation),
    )
    return this.#run.cancellation.awaitUnlessCancelled(reading)
  }

  /** Takes what the service has seen before, or leaves the document to it. */
  #recognize(data: string, name: string, pages: number): ParsedFile {
    const { known, remember } = recall(this.#world, this.#run, 'ocr', data)
    if (known) return this.#report(name, 'pdf', known.text, known.isCut, { reused: true })
    const report: FileReport = { name, type: 'pdf' }
    const parsed: ParsedFile = { type: 'pdf', blocks: [] }
    this.reports.push(report)
    const url = `data:${PDF};base64,${data}`
    if (!this.#run.isDry) this.unrecognized.push({ url, pages, parsed, report, remember })
    return parsed
  }

  #report(
    name: string,
    type: string,
    text: string,
    isCut = false,
    more: Partial<FileReport> = {},
  ): ParsedFile {
    const cut = isCut ? { is_cut: true } : {}
    this.reports.push({ name, type, characters: text.length, ...cut, ...more })
    return { type, blocks: renderWords(name, text, isCut) }
  }
}

/** Renders the words of a file as a model is given them. */
export function renderWords(name: string, text: string, isCut: boolean): Block[] {
  const note = isCut ? '\n[The rest of the file is left out.]' : ''
  const words = text === '' ? '[No text was found in this file.]' : text + note
  return [{ type: 'text', text: `<file name="${toSafeName(name)}">\n${words}\n</file>` }]
}

const PDF = 'application/pdf'

/** Returns what a block's file is given by, if it has to be read: a data URL or another. */
function readFileData(block: Block): string[] {
  const file_data = block.type === 'file' ? block.file.file_data : undefined
  return file_data === undefined || !/^(?:data|https?):/i.test(file_data) || isTextUrl(file_data)
    ? []
    : [file_data]
}

const isTextUrl = (url: string) => url.startsWith('data:text/')

const toSafeName = (name: string) => name.replace(/[<>"\n\r]/g, ' ').slice(0, 200)

function buildStage(files: FileReport[]): PipelineStage | null {
  if (files.length === 0) return null
  const read = files.filter(({ skipped }) => skipped === undefined).length
  return {
    type: 'plugin',
    name: 'file-parser',
    summary: `${read} of ${files.length} ${files.length === 1 ? 'file was' : 'files were'} read as text.`,
    data: { engine: 'text', files },
  }
}
