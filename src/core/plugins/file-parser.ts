import { type Static, Type } from '@sinclair/typebox'
import type { Model } from '../catalog/models.ts'
import { invalid } from '../errors.ts'
import type { FittedCall, Plugin } from '../inference/plugin.ts'
import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { closed, oneOf, optional } from '../kernel/schema-builders.ts'
import type { TextCall } from '../language/call.ts'
import type { Block } from '../language/message.ts'
import type { Work } from '../language/work.ts'
import { FILE, getFacts } from '../tokenizers/prompt.ts'
import { findOcrObstacle } from '../tools/ocr-service.ts'
import { AnnotationFilter, takeAnnotations } from './file-parser/annotations.ts'
import { recognizeText } from './file-parser/ocr.ts'
import { parseFiles } from './file-parser/parsing.ts'

/** How files become text (wire reference C.4). */
export interface FileParserOptions {
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

const FileParser = Type.Object(
  {
    id: Type.Literal('file-parser'),
    enabled: Type.Optional(Type.Boolean()),
    pdf: optional(
      Type.Object(
        { engine: optional(oneOf('native', 'cloudflare-ai', 'pdf-text', 'mistral-ocr')) },
        closed,
      ),
    ),
  },
  closed,
)

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
  imply: (world, call) =>
    call.kind === 'text' && hasFile(call) && isRefused(world, call) ? {} : undefined,
  prepare: (world, run, options) =>
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

const isRefused = (world: InferenceWorld, call: TextCall): boolean =>
  listModels(world, call).some(refusesFiles)

/** Lists the models that the call names, without routers: those pick models that read files. */
const listModels = ({ catalog: { models } }: InferenceWorld, call: TextCall): Model[] =>
  call.models.flatMap(slug => models.get(slug) ?? models.get(slug.split(':')[0] ?? '') ?? [])

const refusesFiles = ({ refused_modalities }: Model) => refused_modalities.includes('file')

async function prepareFiles(
  world: InferenceWorld,
  run: Run,
  given: TextCall,
  options: FileParserOptions,
): Promise<TextCall> {
  const { call, known } = takeAnnotations(given)
  if (!hasFile(call)) return call
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
  return parsed
}

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
