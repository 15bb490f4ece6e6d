import { type Static, Type } from '@sinclair/typebox'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { Content, closed, oneOf, optional, SomeName } from '../../base/schema-builders.ts'
import { planRoute } from '../../engine/plan.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import type { Params } from '../../language/params.ts'
import { listUsableByokKeys } from '../../resources/byok.ts'
import type { InnerAnswer } from '../server-tool/inner.ts'
import type { ToolContext, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'

const Tokens = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

/** The parameters that tools have which ask a model (wire reference D.6). */
export const INNER_PARAMETERS = {
  name: optional(Type.String({ minLength: 1, maxLength: 64, pattern: '^[a-zA-Z0-9 _-]+$' })),
  model: optional(SomeName),
  instructions: optional(Content),
  max_completion_tokens: optional(Tokens),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 })),
  reasoning: optional(
    Type.Object(
      {
        effort: optional(oneOf('max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none')),
        max_tokens: optional(Tokens),
      },
      closed,
    ),
  ),
}

const InnerParameters = Type.Object(INNER_PARAMETERS)

/** What the parameters say of the model that is asked, and how; null where they say nothing. */
export interface InnerOptions {
  name: string | null
  model: string | null
  instructions: string | null
  params: Params
  /** Where the parameters stand in the body. */
  path: string
}

/** Reads the parameters of the model that is asked. Throws 400 naming the field. */
export function readInnerOptions(parameters: Json, path: string): InnerOptions {
  const { name, model, instructions, max_completion_tokens, temperature, reasoning } =
    parameters as Static<typeof InnerParameters>
  if (name?.trim() === '') throw invalid(`${path}.name: expected a name`, `${path}.name`)
  return {
    name: name?.trim() ?? null,
    model: model ?? null,
    instructions: instructions ?? null,
    params: {
      ...(max_completion_tokens == null ? {} : { max_tokens: max_completion_tokens }),
      ...(temperature == null ? {} : { temperature }),
      ...(reasoning == null ? {} : { reasoning: readReasoning(reasoning, `${path}.reasoning`) }),
    },
    path,
  }
}

function readReasoning(
  { effort, max_tokens }: NonNullable<Static<typeof InnerParameters>['reasoning']>,
  path: string,
): NonNullable<Params['reasoning']> {
  if (effort != null && max_tokens != null)
    throw invalid(`${path}: expected either effort or max_tokens, found both`, path)
  return {
    ...(effort == null ? {} : { effort }),
    ...(max_tokens == null ? {} : { max_tokens }),
  }
}

/**
 * Names the function of one entry of the tool: by its place among the entries of that tool, as
 * names of callers are no names of functions. Throws 400 for two entries of one name.
 */
export function nameFunction(tool: string, { options, run }: ToolContext<InnerOptions>): string {
  const entries = listEntries(tool, run)
  const place = entries.indexOf(options)
  const { name, path } = options
  if (entries.slice(0, place).some(other => other.name === name))
    throw invalid(
      `${path}.name: expected a name that no other ${tool} of this request has`,
      `${path}.name`,
    )
  return place === 0 ? tool : `${tool}__${place}`
}

/** Lists what the entries of this tool in the call say. */
export const listEntries = (tool: string, { call }: Run): InnerOptions[] =>
  ((call as TextCall).serverTools?.requests ?? [])
    .filter(({ name }) => name === tool)
    .map(({ options }) => options as InnerOptions)

/**
 * Checks that the model of an entry may serve this caller. Throws 400 for one that does not exist,
 * and 404 when a constraint or a guardrail excludes its last endpoint.
 */
export function checkModel(
  world: ExtensionWorld,
  { options: { model, path, params }, run }: ToolContext<InnerOptions>,
): void {
  if (model !== null) checkInnerModel(world, run, { slug: model, params, field: `${path}.model` })
}

/** A model that a tool is to ask, and where it is named. */
interface NamedModel {
  slug: string
  params: Params
  field: string
  /** Whether one that exists and may not serve this caller is for the tool to tell. */
  mayBeExcluded?: boolean
}

/** Checks that a model which a tool is to ask may serve this caller. Throws as `checkModel` does. */
export function checkInnerModel(
  world: ExtensionWorld,
  run: Run,
  { slug, params, field, mayBeExcluded = false }: NamedModel,
): void {
  const { id, routing, user, trace, preset_id, origin, dialect } = run.call as TextCall
  const call: TextCall = {
    ...{ kind: 'text', id, routing, user, trace, preset_id, origin, dialect, models: [slug] },
    ...{ stream: false, session_id: null, echoUpstreamBody: false },
    ...{ messages: [], tools: [], params, extra: {}, betas: [] },
  }
  try {
    const byokKeys = listUsableByokKeys(world, run.actor)
    planRoute(world, 'text', call, { byokKeys, rules: run.policy.rules })
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    if (error.status === 400) throw invalid(`${field}: ${error.message}`, field)
    if (!mayBeExcluded) throw thrown
  }
}

/** Lists the models of an entry, as far as its caller names them. */
export const listInnerModels = ({ model }: InnerOptions): string[] =>
  model === null ? [] : [model]

/** Returns the models that a use asks: of the entry, of the model that uses it, or of the call. */
export function pickModels(
  { options: { model }, run, input }: ToolInvocation<InnerOptions>,
  mayChoose: boolean,
): string[] {
  if (model !== null) return [model]
  const chosen = mayChoose && typeof input.model === 'string' ? input.model.trim() : ''
  return chosen === '' ? run.call.models : [chosen]
}

/** Builds a message of one text. */
export const buildMessage = (role: Message['role'], text: string): Message => ({
  role,
  blocks: [{ type: 'text', text }],
})

/** Lists the instructions of an entry as messages: one or none. */
export const listInstructions = ({ instructions }: InnerOptions): Message[] =>
  instructions ? [buildMessage('system', instructions)] : []

/** Builds the result of a use: its answer in a field of the item, or why there is none. */
export function buildResult(
  { text, model, error }: InnerAnswer,
  answerField: 'advice' | 'outcome',
  item: Json,
): ToolResult {
  const known = model === null ? item : { ...item, model }
  return error === null
    ? { text, isError: false, item: { ...known, [answerField]: text } }
    : buildFailure(error, known)
}

/** Builds the result of a use that came to nothing. */
export const buildFailure = (error: string, item: Json): ToolResult => ({
  text: error,
  isError: true,
  item: { ...item, error, status: 'failed' },
})
