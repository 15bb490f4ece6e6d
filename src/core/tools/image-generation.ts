import { type Static, Type } from '@sinclair/typebox'
import { listUsableByokKeys } from '../catalog/byok.ts'
import { GatewayError, invalid } from '../errors.ts'
import { IMAGE_FIELDS, readImageParams } from '../inference/kinds/image/params.ts'
import { planRoute } from '../inference/plan.ts'
import { drawPictures } from '../inference/server-tool/inner.ts'
import type {
  ServerTool,
  ToolContext,
  ToolFunction,
  ToolInvocation,
  ToolResult,
} from '../inference/server-tool.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { type Json, readString } from '../kernel/json.ts'
import { closed, optional, SomeName } from '../kernel/schema-builders.ts'
import type { TextCall } from '../language/call.ts'
import type { ImageCall, ImageParams, Picture } from '../language/image.ts'

const Parameters = Type.Object({ model: optional(SomeName), ...IMAGE_FIELDS }, closed)

/** Which model draws, and how. */
interface DrawingOptions {
  /** Null for that of the config. */
  model: string | null
  params: ImageParams
  /** Where the parameters stand in the body. */
  path: string
}

/** The model that draws if neither the call nor the config names one (wire reference D.6). */
const DEFAULT_MODEL = 'openai/gpt-5-image'

/** Has a model draw pictures, within the call (wire reference D.6). */
export const imageGeneration: ServerTool<DrawingOptions> = {
  name: 'image_generation',
  schema: Parameters,
  readOptions(parameters, path) {
    const { model, ...fields } = parameters as Static<typeof Parameters>
    return { model: model ?? null, params: readImageParams(fields, `${path}.`), path }
  },
  findObstacle,
  takesTurns: true,
  listModels: ({ model }) => (model === null ? [] : [model]),
  listFunctions(world, context) {
    checkModel(world, context)
    return [FUNCTION]
  },
  describeUse: (_, { input }) => describe(input),
  run: runDrawing,
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

const pickModel = ({ config }: Pick<InferenceWorld, 'config'>, { model }: DrawingOptions): string =>
  model ?? config.server_tools.image_generation.model ?? DEFAULT_MODEL

function findObstacle(world: InferenceWorld, options: DrawingOptions): string | null {
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
function checkModel(world: InferenceWorld, { options, run }: ToolContext<DrawingOptions>): void {
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

const describe = (input: Json): Json => {
  const prompt = readString(input.prompt)
  return prompt === null ? {} : { prompt }
}

async function runDrawing(
  world: InferenceWorld,
  invocation: ToolInvocation<DrawingOptions>,
): Promise<ToolResult> {
  const { input, options } = invocation
  const prompt = readString(input.prompt)?.trim() ?? ''
  if (prompt === '')
    return { text: 'prompt: expected a text', isError: true, item: describe(input) }
  const { pictures, error } = await drawPictures(world, invocation, {
    models: [pickModel(world, options)],
    prompt,
    params: options.params,
  })
  if (error !== null) return { text: error, isError: true, item: describe(input) }
  const text = JSON.stringify({ status: 'ok', pictures: pictures.length, shown_to_user: true })
  return { text, isError: false, item: describe(input), pictures: pictures.map(toUrl) }
}

const toUrl = ({ data, media_type = 'image/png' }: Picture): string =>
  `data:${media_type};base64,${data}`
