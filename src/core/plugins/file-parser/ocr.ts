import { Type } from '@sinclair/typebox'
import type { Config } from '../../config.ts'
import { TextSink } from '../../documents/text-sink.ts'
import { invalid, unavailable } from '../../errors.ts'
import { requireService } from '../../inference/plan/constraints.ts'
import type { Run } from '../../inference/run.ts'
import { runOpeningUse } from '../../inference/server-tool/opening-use.ts'
import { prepareUse } from '../../inference/server-tool/use.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../../inference/server-tool.ts'
import type { InferenceWorld } from '../../inference/world.ts'
import { isObject, readObject, readString } from '../../kernel/json.ts'
import { toNanos } from '../../kernel/money.ts'
import type { Service } from '../../policy/rules.ts'
import { findOcrObstacle, OCR_SERVICE } from '../../tools/ocr-service.ts'
import { runUse, ToolFailure, type UseLimit } from '../../tools/use-limit.ts'
import { describeStatus, readJson, sendToEngine } from '../../tools/web-search/search.ts'
import { renderWords, type UnrecognizedFile } from './parsing.ts'

const NAME = OCR_SERVICE.name
/** The most pages of one document (Mistral, "OCR"). */
const MOST_PAGES = 1_000
const TIMEOUT_SECONDS = 120

/**
 * Has Mistral recognize the text of a PDF, and puts it into `parsed`. The price of all its pages is
 * held before and that of the pages that came is charged after. Throws 403 where rules keep the call
 * from Mistral, 400 for a PDF of too many pages, 503 if no text comes, which costs nothing, and as `runOpeningUse` does.
 */
export async function recognizeText(
  world: InferenceWorld,
  run: Run,
  file: UnrecognizedFile,
): Promise<void> {
  const { report, parsed, pages } = file
  requireService(run, findOcr(world.config))
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
  world: InferenceWorld,
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
