import { invalid } from '../../base/errors.ts'
import { isObject, type Json, readString } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextDialect } from '../../language/dialect.ts'
import type { Tool } from '../../language/tool.ts'
import type { Actor } from '../../resources/actor.ts'
import type { PresetDraft } from '../../resources/presets/draft.ts'
import { requireUsablePreset } from '../../resources/presets.ts'
import { toChatCall } from './chat/request.ts'
import type { ChatRequest } from './chat/schema.ts'
import type { CallContext, PresetForm } from './dialect.ts'
import { attachPreset, type ModelFields, PRESET_PREFIX, type ToCall } from './routing.ts'
import type { DialectWorld } from './world.ts'

/**
 * Builds a preset's draft from a checked body in any form: its settings for answers, under the chat
 * API's field names. Throws 400 if fields contradict each other or the body names a preset: presets
 * do not inherit from presets.
 */
export function buildPresetDraft(
  world: DialectWorld,
  actor: Actor,
  form: PresetForm,
  body: unknown,
) {
  const draft = form.toPresetDraft(body)
  const { model, models = [] } = draft.config as { model?: string; models?: string[] }
  if (isObject(body) && body.preset != null)
    throw invalid('preset: expected none in a preset', 'preset')
  if ([model, ...models].some(slug => slug?.includes(PRESET_PREFIX)))
    throw invalid('model: expected a model, found a preset', 'model')
  toPresetCall(world, actor, draft, EMPTY_CONTEXT)
  return draft
}

const EMPTY_CONTEXT: CallContext = {
  origin: {
    ...{ request_id: '', http_referer: null, title: null, user_agent: null, region: 'global' },
    traceContext: null,
  },
  id: '',
  session_id: null,
  betas: [],
}

/**
 * Extends a dialect's `toCall` so that calls inherit from the preset that the body names: in its
 * model as `@preset/slug` or `model@preset/slug`, or in `preset`. The call's own fields take
 * precedence, tools are merged, and the preset's system prompt comes first (wire reference I). The
 * calls are merged, not the bodies: the preset and the body may be in different dialects. Throws
 * 404 for a preset that cannot be used, and 400 if the body names two.
 */
export const withPresets = <Body extends ModelFields>(toCall: ToCall<Body>): ToCall<Body> =>
  attachPreset(toCall, (gateway, actor, body, context) => {
    const namedPreset = readNamedPreset(body)
    const { id, designated_version } = requireUsablePreset(gateway, actor, namedPreset.slug)
    const call = toCall(
      gateway,
      actor,
      replaceModels(body, namedPreset.model, designated_version.config),
      context,
    )
    const presetCall = toPresetCall(gateway, actor, designated_version, context)
    return {
      ...call,
      preset_id: id,
      // A call without preferences has only those from `route` and from the workspace.
      routing: body.provider == null ? { ...presetCall.routing, ...call.routing } : call.routing,
      messages: [...presetCall.messages, ...call.messages],
      tools: mergeTools(
        presetCall.tools.map(tool => setToolDialect(call.dialect, tool)),
        call.tools,
      ),
      params: { ...presetCall.params, ...call.params },
      ...mergePlugins(presetCall, call),
      ...mergeServerTools(presetCall, call),
      ...(call.routingMetadata
        ? {
            routingMetadata: {
              ...call.routingMetadata,
              requestedModel: getRequestedModel(body, namedPreset.slug),
            },
          }
        : {}),
    }
  })

/** Returns the model that the body named, exactly as it named it. */
const getRequestedModel = ({ model, models }: ModelFields, slug: string): string =>
  model ?? models?.[0] ?? PRESET_PREFIX + slug

// The call's entry for a plugin replaces the preset's, as with other fields.
const mergePlugins = (
  { plugins: presetPlugins }: TextCall,
  { plugins: callPlugins }: TextCall,
): Pick<TextCall, 'plugins'> =>
  presetPlugins || callPlugins ? { plugins: { ...presetPlugins, ...callPlugins } } : {}

// The call's entry for a tool replaces the preset's, and only calls say when to stop.
function mergeServerTools(
  { serverTools: presetTools }: TextCall,
  { serverTools: callTools }: TextCall,
): Pick<TextCall, 'serverTools'> {
  if (!presetTools || !callTools) return presetTools ? { serverTools: presetTools } : {}
  const { requests } = callTools
  const kept = presetTools.requests.filter(
    ({ identity }) => !requests.some(one => one.identity === identity),
  )
  return { serverTools: { ...callTools, requests: [...kept, ...requests] } }
}

/** Reads the preset that a body names, and the model that it names in addition. */
function readNamedPreset({ model, preset }: ModelFields): {
  slug: string
  model: string | undefined
} {
  const prefixIndex = model?.indexOf(PRESET_PREFIX) ?? -1
  if (model === undefined || prefixIndex === -1) return { slug: preset as string, model }
  const slug = model.slice(prefixIndex + PRESET_PREFIX.length)
  if (preset != null && preset !== slug)
    throw invalid('preset: expected the one that model names, or none', 'preset')
  return { slug, model: prefixIndex === 0 ? undefined : model.slice(0, prefixIndex) }
}

/** Returns the body with the models that it requests, or else the preset's, or none. */
function replaceModels<Body extends ModelFields>(
  { preset: _, model: __, ...body }: Body,
  model: string | undefined,
  config: Json,
): Body {
  const requestedModel = model ?? readString(config.model)
  const models = body.models ?? config.models
  return {
    ...body,
    ...(requestedModel === null ? {} : { model: requestedModel }),
    ...(models === undefined ? {} : { models }),
  } as unknown as Body
}

// The models of the result are unused: the body already has them. The cache settings are removed
// because they are not for providers.
function toPresetCall(
  world: DialectWorld,
  actor: Actor,
  { system_prompt, config }: PresetDraft,
  context: CallContext,
): TextCall {
  const { cache_enabled: _, cache_ttl_seconds: __, ...fields } = config
  const messages = system_prompt === null ? [] : [{ role: 'system', content: system_prompt }]
  return toChatCall(world, actor, { ...fields, messages } as ChatRequest, context)
}

// A tool without a type of ours means what it would mean in the call's own dialect.
const setToolDialect = (dialect: TextDialect, tool: Tool): Tool =>
  tool.type === 'other' ? { ...tool, dialect } : tool

/** Merges the tools: the preset's first, each replaced by the call's tool of the same identity. */
function mergeTools(presetTools: Tool[], callTools: Tool[]): Tool[] {
  if (presetTools.length === 0) return callTools
  const ids = new Set(presetTools.map(getToolIdentity))
  // Of the call's tools with the same identity the first counts.
  const callToolsByIdentity = new Map(
    callTools.toReversed().map(tool => [getToolIdentity(tool), tool]),
  )
  const merged = presetTools.map(tool => callToolsByIdentity.get(getToolIdentity(tool)) ?? tool)
  return [...merged, ...callTools.filter(tool => !ids.has(getToolIdentity(tool)))]
}

/** Server tools that a call may have more than once, each under a different name. */
const NAMED_SERVER_TOOLS = ['advisor', 'subagent']

function getToolIdentity(tool: Tool): string {
  if (tool.type === 'function') return `function ${tool.name}`
  const { type, parameters } = tool.value as { type: string; parameters?: unknown }
  const isNamed = type.includes(':') && NAMED_SERVER_TOOLS.includes(type.split(':')[1] ?? '')
  return isNamed && isObject(parameters) ? `${type} ${parameters.name}` : type
}
