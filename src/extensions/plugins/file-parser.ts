import { type Static, Type } from '@sinclair/typebox'
import { type GatewayError, invalid, unavailable } from '../../base/errors.ts'
import { isObject, type Json, readObject, readString } from '../../base/json.ts'
import { toNanos } from '../../base/money.ts'
import type { Config } from '../../config.ts'
import type { AnswerFilter } from '../../engine/kind.ts'
import { requireService } from '../../engine/plan/constraints.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message, ParsedFile } from '../../language/message.ts'
import type { TextPart } from '../../language/part.ts'
import type { Work } from '../../language/work.ts'
import type { Service } from '../../limits/rules.ts'
import type { Model } from '../../resources/models/catalog.ts'
import { FileParser } from '../../translation/dialects/plugin-entries.ts'
import { FILE, getFacts } from '../../translation/tokenizers/prompt.ts'
import { TextSink } from '../documents/text-sink.ts'
import type { FittedCall, Plugin } from '../plugin.ts'
import { runOpeningUse } from '../server-tool/opening-use.ts'
import { prepareUse } from '../server-tool/use.ts'
import type { ServerTool, ToolInvocation, ToolResult, ToolWorld } from '../server-tool.ts'
import { findOcrObstacle, OCR_SERVICE } from '../tools/ocr-service.ts'
import { runUse, ToolFailure, type UseLimit } from '../tools/use-limit.ts'
import { describeStatus, readJson, sendToEngine } from '../tools/web-search/search.ts'
import {
  checkWords,
  hashFile,
  parseFiles,
  renderWords,
  type UnrecognizedFile,
} from './file-parser/parsing.ts'

const NAME = OCR_SERVICE.name

/** The most pages of one document (Mistral, "OCR"). */
const MOST_PAGES = 1_000
const TIMEOUT_SECONDS = 120

/**
 * Has Mistral recognize the text of a PDF, and puts it into `parsed`. The price of all its pages is
 * held before and that of the pages that came is charged after. Throws 403 where rules keep the call
 * from Mistral, 400 for a PDF of too many pages, 503 if no text comes, which costs nothing, and as `runOpeningUse` does.
 */
async function recognizeText(world: ToolWorld, run: Run, file: UnrecognizedFile): Promise<void> {
  const { report, parsed, pages } = file
  requireService(world, run, findOcr(world.config))
  if (pages > MOST_PAGES)
    throw invalid(`${report.name}: expected at most ${MOST_PAGES} pages, found ${pages}`)
  const use = prepareUse(world, run, {
    call: { id: NAME, name: NAME, input: '{}' },
    offered: {
      tool: recognition as ServerTool,
      request: { ...{ name: NAME, identity: NAME, type: NAME, field: 'plugins' }, options: file },
    },
    ...{ turn: 0, uses: 0 },
  })
  await runOpeningUse(world, run, use)
  const { result } = use
  if (!result || result.isError)
    throw unavailable(`${report.name} could not be read by ${NAME}: ${result?.text ?? NO_TEXT}`)
  const { text, isCut } = result.item as unknown as ReadText
  parsed.blocks = renderWords(report.name, text, isCut)
  file.remember({ type: 'pdf', text, isCut, pages })
  Object.assign(report, {
    characters: text.length,
    engine: NAME,
    ...(isCut ? { is_cut: true } : {}),
  })
}

function findOcr({ plugins }: Config): Service {
  const { model = OCR_SERVICE.model, data_policy } = plugins.mistral_ocr ?? {}
  return { name: NAME, provider: OCR_SERVICE.provider, model, data_policy }
}

const NO_TEXT = `The service ${NAME} sent no text`

/** One recognition, as a use of a tool: it has a price, a time and a place in the record. */
const recognition: ServerTool<UnrecognizedFile> = {
  name: NAME,
  schema: Type.Object({}),
  readOptions: () => {
    throw invalid(`${NAME} is an engine of the plugin file-parser`)
  },
  findObstacle: ({ config }) => findOcrObstacle(config),
  hasOwnTime: true,
  findService: ({ config }) => findOcr(config),
  priceUse: ({ config }, { pages }) => priceReading(config, pages),
  listFunctions: () => [],
  run: (world, invocation) => {
    const seconds = world.config.plugins.mistral_ocr?.timeout_seconds ?? TIMEOUT_SECONDS
    return runUse(invocation, seconds * 1000, limit => askService(world, invocation, limit))
  },
}

const priceReading = ({ plugins }: Config, pages: number): bigint =>
  toNanos(plugins.mistral_ocr?.usd_per_page ?? 0) * BigInt(pages)

/** Asks for the text. Repeats nothing of the service's own words. */
async function askService(
  world: ToolWorld,
  { options: { url, pages } }: ToolInvocation<UnrecognizedFile>,
  limit: UseLimit,
): Promise<ToolResult> {
  const settings = world.config.plugins.mistral_ocr ?? {}
  const branch = limit.open()
  try {
    const request = OCR_SERVICE.buildRequest(url, settings)
    const incoming = await sendToEngine(world, OCR_SERVICE, settings, request, branch)
    if (incoming.status !== 200)
      throw new ToolFailure(describeStatus(`The service ${NAME}`, 'pages', incoming.status))
    const read = readPages(await readJson(incoming))
    if (!read) throw new ToolFailure(NO_TEXT)
    const cost = priceReading(world.config, Math.min(read.count, pages))
    // Not as the text of the result, which is bounded for models.
    return { text: '', isError: false, item: { ...read }, ...(cost > 0n ? { cost } : {}) }
  } finally {
    limit.release(branch)
  }
}

/** What was recognized. */
interface ReadText {
  text: string
  isCut: boolean
  /** How many pages are to be paid. */
  count: number
}

/** Reads the text of an answer; null if it is none. */
function readPages(answer: unknown): ReadText | null {
  if (!isObject(answer) || !Array.isArray(answer.pages) || answer.pages.length === 0) return null
  const sink = new TextSink()
  for (const page of answer.pages) {
    const words = isObject(page) ? readString(page.markdown) : null
    if (words === null) return null
    if (!sink.add(`${words}\n\n`)) break
  }
  const told = readObject(answer, 'usage_info').pages_processed
  const isCount = typeof told === 'number' && Number.isSafeInteger(told) && told >= 0
  const count = Math.min(answer.pages.length, isCount ? told : answer.pages.length)
  return { text: sink.toText(), isCut: sink.isCut, count }
}

/**
 * Takes the annotations of parsed files out of a conversation: clients send them back with the
 * answers that had them, so that a file is parsed once. Providers do not know them.
 */
function takeAnnotations(call: TextCall): {
  call: TextCall
  known: Map<string, ParsedFile>
} {
  const known = new Map<string, ParsedFile>()
  if (!call.messages.some(hasAnnotations)) return { call, known }
  const messages = call.messages.map(message => takeFromMessage(message, known))
  return { call: { ...call, messages }, known }
}

const hasAnnotations = ({ role, extra }: Message) =>
  role === 'assistant' && Array.isArray(extra?.annotations)

function takeFromMessage(message: Message, known: Map<string, ParsedFile>): Message {
  if (!hasAnnotations(message)) return message
  const { annotations, ...others } = message.extra as Json & { annotations: unknown[] }
  const left = annotations.filter(annotation => !takeFile(annotation, known))
  if (left.length === annotations.length) return message
  const extra = left.length > 0 ? { ...others, annotations: left } : others
  const { extra: _, ...rest } = message
  return Object.keys(extra).length > 0 ? { ...rest, extra } : rest
}

/** Notes a parsed file; tells whether the annotation is one. */
function takeFile(annotation: unknown, known: Map<string, ParsedFile>): boolean {
  if (!isObject(annotation) || annotation.type !== 'file' || !isObject(annotation.file))
    return false
  const { hash, content } = annotation.file
  const texts = (Array.isArray(content) ? content : []).flatMap(readText)
  if (typeof hash === 'string' && texts.length > 0)
    known.set(hash, { type: readString(annotation.file.type) ?? 'unknown', blocks: texts })
  return true
}

function readText(part: unknown): Block[] {
  const text = isObject(part) && part.type === 'text' ? readString(part.text) : null
  return text === null ? [] : [{ type: 'text', text }]
}

/**
 * Adds an annotation for each parsed file to the beginning of an answer, with its words as content
 * filters left them.
 */
class AnnotationFilter implements AnswerFilter<TextPart> {
  #annotations: TextPart[]
  readonly blocked: GatewayError | null = null

  private constructor(annotations: TextPart[]) {
    this.#annotations = annotations
  }

  /** Creates the filter for the files of a call; null if none was parsed. */
  static create(call: TextCall): AnnotationFilter | null {
    const annotations = listAnnotations(call)
    return annotations.length > 0 ? new AnnotationFilter(annotations) : null
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    const annotations = this.#annotations
    this.#annotations = []
    return annotations.length > 0 ? [...annotations, ...parts] : parts
  }

  async end(): Promise<TextPart[]> {
    return []
  }
}

function listAnnotations({ messages }: TextCall): TextPart[] {
  const files = new Map<string, TextPart>()
  for (const { blocks } of messages)
    for (const block of blocks) {
      const { file_data } = block.type === 'file' ? block.file : {}
      if (block.type !== 'file' || !block.parsed || file_data === undefined) continue
      const hash = hashFile(file_data)
      const annotation = renderAnnotation(block.parsed, hash, block.file.filename)
      files.set(hash, { type: 'annotation', choice: 0, annotation })
    }
  return [...files.values()]
}

const renderAnnotation = ({ type, blocks }: ParsedFile, hash: string, name = 'file') => ({
  type: 'file',
  file: { hash, name, type, content: blocks.flatMap(renderText) },
})

const renderText = (block: Block) =>
  block.type === 'text' ? [{ type: 'text', text: block.text }] : []

/** How files become text (wire reference C.4). */
interface FileParserOptions {
  /**
   * How PDFs are read: by models that can and as text by others if undefined, by models alone if
   * `native`, as text by all if `text`, and as what a service sees in their pictures if `ocr`.
   */
  pdf?: 'native' | 'text' | 'ocr'
}

/** The public names of the engines. The oldest is another word for the second. */
const ENGINES = {
  ...({ native: 'native', 'cloudflare-ai': 'text', 'pdf-text': 'text' } as const),
  ...({ 'mistral-ocr': 'ocr' } as const),
}

/**
 * The `file-parser` plugin: documents become text for models that do not read them, or not this
 * type. A call to a model that reads no files uses it unasked.
 */
export const fileParser: Plugin<FileParserOptions> = {
  id: 'file-parser',
  schema: FileParser,
  readOptions(entry, at, config) {
    const { pdf } = entry as Static<typeof FileParser>
    const engine = pdf?.engine
    if (engine == null) return {}
    const obstacle = engine === 'mistral-ocr' ? findOcrObstacle(config) : null
    if (obstacle !== null)
      throw invalid(
        `${at}.pdf.engine: expected native or cloudflare-ai: mistral-ocr cannot be used: ${obstacle}`,
        `${at}.pdf.engine`,
      )
    return { pdf: ENGINES[engine] }
  },
  imply: (world: ToolWorld, call) =>
    call.kind === 'text' && hasFile(call) && isRefused(world, call) ? {} : undefined,
  prepare: (world: ToolWorld, run, options) =>
    run.call.kind === 'text' ? prepareFiles(world, run, run.call, options) : run.call,
  fit: (call, model, options) =>
    options && call.kind === 'text' ? fitFiles(call, model, options) : { call },
  after: (_, { call }) => (call.kind === 'text' ? AnnotationFilter.create(call) : null),
}

const hasFile = ({ messages }: TextCall): boolean =>
  (getFacts(messages).features & FILE) !== 0 &&
  messages.some(({ blocks }) => blocks.some(isUnreadFile))

const isUnreadFile = (block: Block): boolean =>
  block.type === 'file' &&
  block.file.file_data !== undefined &&
  !block.file.file_data.startsWith('data:text/')

const isRefused = (world: ToolWorld, call: TextCall): boolean =>
  listModels(world, call).some(refusesFiles)

/** Lists the models that the call names, without routers: those pick models that read files. */
const listModels = ({ catalog: { models } }: ToolWorld, call: TextCall): Model[] =>
  call.models.flatMap(slug => models.get(slug) ?? models.get(slug.split(':')[0] ?? '') ?? [])

const refusesFiles = ({ refused_modalities }: Model) => refused_modalities.includes('file')

async function prepareFiles(
  world: ToolWorld,
  run: Run,
  given: TextCall,
  options: FileParserOptions,
): Promise<TextCall> {
  const { call, known: told } = takeAnnotations(given)
  if (!hasFile(call)) return call
  const known = mayGoUnread(run, options) ? NOTHING_TOLD : told
  const isReadSomewhere = listModels(world, call).some(model => !refusesFiles(model))
  const { messages, stage, unrecognized } = await parseFiles(world, run, {
    messages: call.messages,
    known,
    leavesPdfs: options.pdf === 'native',
    recognizesPdfs: options.pdf === 'ocr',
    // A PDF without words may still be read by a model that sees its pages.
    mayFail: options.pdf === undefined && isReadSomewhere,
  })
  if (stage) run.pluginStages.push(stage)
  const parsed = { ...call, messages }
  // A use of a tool is only paid if the call can be made beside it, with its files as text.
  if (unrecognized.length > 0) run.call = parsed
  for (const file of unrecognized) await recognizeText(world, run, file)
  if (unrecognized.length > 0) checkWords(messages)
  return parsed
}

/**
 * Whether a model may get a document itself beside words that filters or a judge have read. A client
 * could tell it other words than the document has.
 */
const mayGoUnread = ({ policy, call }: Run, { pdf }: FileParserOptions): boolean =>
  (pdf === undefined || pdf === 'native') &&
  (policy.filters !== undefined || call.plugins?.moderation != null)

const NOTHING_TOLD: Map<string, ParsedFile> = new Map()

/** Replaces files by their words, unless the model reads this type itself. */
function fitFiles(call: TextCall, model: Model, { pdf }: FileParserOptions): FittedCall<'text'> {
  if (!call.messages.some(({ blocks }) => blocks.some(isParsed))) return { call }
  const takesPdfs = (pdf === undefined || pdf === 'native') && !refusesFiles(model)
  const messages = call.messages.map(message =>
    message.blocks.some(isParsed)
      ? { ...message, blocks: message.blocks.flatMap(block => fitBlock(block, takesPdfs)) }
      : message,
  )
  return { call: { ...call, messages } satisfies Work['text']['call'] }
}

const isParsed = (block: Block) => block.type === 'file' && block.parsed !== undefined

function fitBlock(block: Block, takesPdfs: boolean): Block[] {
  if (block.type !== 'file' || !block.parsed) return [block]
  const { parsed, ...file } = block
  // Without its bytes a file was redacted: only the words may go out.
  if (takesPdfs && parsed.type === 'pdf' && file.file.file_data !== undefined) return [file]
  return parsed.blocks
}
