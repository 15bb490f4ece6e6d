import { type Static, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import { type Json, readString } from '../../base/json.ts'
import { open, optional, SomeName } from '../../base/schema-builders.ts'
import { isAtHome } from '../../engine/kinds/text/foreign-tools.ts'
import { planRoute } from '../../engine/plan.ts'
import type { TextCall } from '../../language/call.ts'
import type { ImageCall, ImageParams, Picture } from '../../language/image.ts'
import type { ToolReading } from '../../language/server-tools.ts'
import { listUsableByokKeys } from '../../resources/byok.ts'
import { IMAGE_FIELDS, readImageParams } from '../../translation/image-params.ts'
import { drawPictures } from '../server-tool/inner.ts'
import type {
  ServerTool,
  ToolContext,
  ToolFunction,
  ToolInvocation,
  ToolResult,
  ToolWorld,
} from '../server-tool.ts'
import { leaveNative, listEndpointsOf } from './native-form.ts'

const Parameters = Type.Object({ model: optional(SomeName), ...IMAGE_FIELDS }, open)
const KNOWN = Object.keys(Parameters.properties)

/** Which model draws, and how. */
interface DrawingOptions {
  /** Null for that of the config. */
  model: string | null
  params: ImageParams
  /** Where the parameters stand in the body. */
  path: string
  /** The tool as OpenAI's API has it; null for the gateway's own. */
  native: Json | null
  /** Its position among the tools of the body, in that form. */
  at?: number
}

/** The model that draws if neither the call nor the config names one (wire reference D.6). */
const DEFAULT_MODEL = 'openai/gpt-5-image'

/** Has a model draw pictures, within the call (wire reference D.6). */
export const imageGeneration: ServerTool<DrawingOptions> = {
  name: 'image_generation',
  nativeTypes: { responses: /^image_generation$/ },
  schema: Parameters,
  readOptions,
  // Of the plain form, that depends on what the call's providers have themselves.
  findObstacle: (world, options) => (options.native ? null : findObstacle(world, options)),
  delegate: leaveToProvider,
  takesTurns: true,
  listModels: ({ model }) => (model === null ? [] : [model]),
  listFunctions(world, context) {
    checkNative(world, context.options)
    checkModel(world, context)
    return [FUNCTION]
  },
  describeUse: (_, invocation) => describe(invocation),
  run: runDrawing,
}

function readOptions(parameters: Json, path: string, reading?: ToolReading): DrawingOptions {
  const { model, ...fields } = parameters as Static<typeof Parameters>
  const native = reading?.isPlain ? parameters : null
  const stray = native ? undefined : Object.keys(parameters).find(name => !KNOWN.includes(name))
  if (stray !== undefined) {
    const field = `${path}.${stray.slice(0, 64)}`
    throw invalid(`${field}: expected one of ${KNOWN.join(', ')}`, field)
  }
  const params = readImageParams(fields, `${path}.`)
  const place = native ? { at: reading?.at ?? 0 } : {}
  return { model: model ?? null, params, path, native, ...place }
}

/**
 * Returns the call with OpenAI's tool, where any endpoint's provider has that, and where no model
 * can be asked to draw for it; null elsewhere.
 */
function leaveToProvider(
  world: ToolWorld,
  call: TextCall,
  options: DrawingOptions,
): TextCall | null {
  const { native, at = 0 } = options
  if (!native) return null
  const isKnown = call.models.every(slug => world.catalog.models.has(slug))
  const hasTool = listEndpointsOf(world, call)
    .flat()
    .some(endpoint => isAtHome(call, endpoint))
  if (isKnown && !hasTool && hasDrawingModel(world, options)) return null
  return leaveNative(call, { value: { type: 'image_generation', ...native }, at })
}

/** Whether a model can be asked to draw. One that the client names itself is, or says why not. */
function hasDrawingModel(world: ToolWorld, options: DrawingOptions): boolean {
  const model = world.catalog.models.get(pickModel(world, options))
  return options.model !== null || !!model?.endpoints.some(({ provider }) => provider.configured)
}

/** The fields of OpenAI's tool that change nothing with these values. */
const WITHOUT_EFFECT: Record<string, unknown[]> = {
  ...{ moderation: ['auto', null], partial_images: [0, null], action: ['auto', 'generate', null] },
  ...{ input_fidelity: [null], input_image_mask: [null] },
}

/** Throws 400 for what only OpenAI's own tool does, and where no model draws for it here. */
function checkNative(world: ToolWorld, options: DrawingOptions): void {
  const { native, path } = options
  if (!native) return
  const stray = Object.keys(native).find(
    name => !KNOWN.includes(name) && !WITHOUT_EFFECT[name]?.includes(native[name]),
  )
  if (stray !== undefined) {
    const field = `${path}.${stray.slice(0, 64)}`
    throw invalid(`${field}: expected nothing that only a provider’s own tool can do`, field)
  }
  const obstacle = findObstacle(world, options)
  if (obstacle === null) return
  const field = `${path}.type`
  throw invalid(`${field}: image_generation does not work here: ${obstacle}`, field)
}

const FUNCTION: ToolFunction = {
  name: 'image_generation',
  description:
    'Draws a picture from a description, which the user then sees. You do not see it yourself.',
  parameters: {
    type: 'object',
    properties: {
      prompt: { type: 'string', description: 'What the picture shows, in all detail' },
    },
    required: ['prompt'],
    additionalProperties: false,
  },
}

/** Returns the model's name. OpenAI's own names of its models have no author. */
function pickModel({ config, catalog }: ToolWorld, { model, native }: DrawingOptions): string {
  const slug = model ?? config.server_tools.image_generation.model ?? DEFAULT_MODEL
  return native && !catalog.models.has(slug) ? `openai/${slug}` : slug
}

function findObstacle(world: ToolWorld, options: DrawingOptions): string | null {
  const slug = pickModel(world, options)
  const model = world.catalog.models.get(slug)
  if (model?.output_modalities.includes('image')) return null
  return model
    ? `${slug} does not draw`
    : `there is no model ${slug.slice(0, 100)}; server_tools.image_generation.model names another`
}

/**
 * Checks that the model may serve this caller. Throws 400 for parameters that none of its endpoints
 * takes, and 404 when a constraint or a guardrail excludes its last endpoint.
 */
function checkModel(world: ToolWorld, { options, run }: ToolContext<DrawingOptions>): void {
  const { id, routing, user, trace, preset_id, origin, dialect } = run.call as TextCall
  const call: ImageCall = {
    ...{ kind: 'image', id, routing, user, trace, preset_id, origin, dialect },
    ...{ stream: false, session_id: null, echoUpstreamBody: false },
    ...{ models: [pickModel(world, options)], params: options.params },
    ...{ prompt: '', references: [], options: {} },
  }
  try {
    const byokKeys = listUsableByokKeys(world, run.actor)
    planRoute(world, 'image', call, { byokKeys, rules: run.policy.rules })
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    if (error.status !== 400) throw thrown
    throw invalid(`${options.path}: ${error.message}`, options.path)
  }
}

function describe({ input, options: { native } }: ToolInvocation<DrawingOptions>): Json {
  const prompt = readString(input.prompt)
  if (native) return { type: 'image_generation_call' }
  return prompt === null ? {} : { prompt }
}

async function runDrawing(
  world: ToolWorld,
  invocation: ToolInvocation<DrawingOptions>,
): Promise<ToolResult> {
  const { input, options } = invocation
  const prompt = readString(input.prompt)?.trim() ?? ''
  if (prompt === '') return fail('prompt: expected a text', invocation)
  const { pictures, error } = await drawPictures(world, invocation, {
    models: [pickModel(world, options)],
    prompt,
    params: options.params,
  })
  if (error !== null) return fail(error, invocation)
  const text = JSON.stringify({ status: 'ok', pictures: pictures.length, shown_to_user: true })
  const item = describe(invocation)
  // OpenAI's item has the picture in it.
  if (options.native && pictures.length === 1)
    return { text, isError: false, item: { ...item, result: pictures[0]?.data } }
  return { text, isError: false, item, pictures: pictures.map(toUrl) }
}

const fail = (text: string, invocation: ToolInvocation<DrawingOptions>): ToolResult => {
  const item = describe(invocation)
  const failed = invocation.options.native ? { ...item, result: null, status: 'failed' } : item
  return { text, isError: true, item: failed }
}

const toUrl = ({ data, media_type = 'image/png' }: Picture): string =>
  `data:${media_type};base64,${data}`
