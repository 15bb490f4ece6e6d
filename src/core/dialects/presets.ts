import type { Draft } from '../catalog/presets/draft.ts'
import { usablePreset } from '../catalog/presets.ts'
import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isObject, type Json, text } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import type { TextDialect } from '../language/dialect.ts'
import type { Tool } from '../language/tool.ts'
import { understand } from './chat/request.ts'
import type { ChatRequest } from './chat/schema.ts'
import type { CallContext, PresetForm } from './dialect.ts'
import type { DialectWorld } from './world.ts'

/**
 * Builds a preset's draft from a checked body in any form: its settings for answers, under the chat
 * API's field names. Throws 400 if fields contradict each other or the body names a preset: presets
 * do not inherit from presets.
 */
export function makeDraft(gateway: DialectWorld, actor: Actor, form: PresetForm, body: unknown) {
  const draft = form.toDraft(body)
  const { model, models = [] } = draft.config as { model?: string; models?: string[] }
  if (isObject(body) && body.preset != null)
    throw invalid('preset: expected none in a preset', 'preset')
  if ([model, ...models].some(slug => slug?.includes(MARK)))
    throw invalid('model: expected a model, found a preset', 'model')
  understoodAlone(gateway, actor, draft, NOBODY)
  return draft
}

const NOBODY: CallContext = {
  origin: { request_id: '', http_referer: null, title: null, user_agent: null, region: 'global' },
  id: '',
  session_id: null,
  betas: [],
}

type Understand<Body> = (
  gateway: DialectWorld,
  actor: Actor,
  body: Body,
  context: CallContext,
) => TextCall
type Naming = {
  model?: string
  models?: string[]
  preset?: string | null
  provider?: object | null
}

/**
 * Extends a dialect's `toCall` so that calls inherit from the preset that the body names: in its
 * model as `@preset/slug` or `model@preset/slug`, or in `preset`. The call's own fields take
 * precedence, tools are merged, and the preset's system prompt comes first (wire reference I). The
 * calls are merged, not the bodies: the preset and the body may be in different dialects. Throws
 * 404 for a preset that cannot be used, and 400 if the body names two.
 */
export const withPresets =
  <Body extends Naming>(toCall: Understand<Body>): Understand<Body> =>
  (gateway, actor, body, context) => {
    const named = namedIn(body)
    if (!named) return toCall(gateway, actor, body, context)
    const { id, designated_version } = usablePreset(gateway, actor, named.slug)
    const call = toCall(
      gateway,
      actor,
      modelled(body, named.model, designated_version.config),
      context,
    )
    const under = understoodAlone(gateway, actor, designated_version, context)
    return {
      ...call,
      preset_id: id,
      // A call without preferences has only those from `route` and from the workspace.
      routing: body.provider == null ? { ...under.routing, ...call.routing } : call.routing,
      turns: [...under.turns, ...call.turns],
      tools: united(
        under.tools.map(tool => saidIn(call.dialect, tool)),
        call.tools,
      ),
      params: { ...under.params, ...call.params },
      ...pluginsUnder(under, call),
      ...(call.routingMetadata
        ? { routingMetadata: { ...call.routingMetadata, requested: requestedBy(body, named.slug) } }
        : {}),
    }
  }

/** Returns the model that the body named, exactly as it named it. */
const requestedBy = ({ model, models }: Naming, slug: string): string =>
  model ?? models?.[0] ?? MARK + slug

// The call's entry for a plugin replaces the preset's, as with other fields.
const pluginsUnder = (
  { plugins: under }: TextCall,
  { plugins: own }: TextCall,
): Pick<TextCall, 'plugins'> => (under || own ? { plugins: { ...under, ...own } } : {})

const MARK = '@preset/'

/** Finds the preset that a body names, and the model that it names in addition. */
function namedIn({
  model,
  preset,
}: Naming): { slug: string; model: string | undefined } | undefined {
  const at = model?.indexOf(MARK) ?? -1
  if (model === undefined || at === -1) return preset == null ? undefined : { slug: preset, model }
  const slug = model.slice(at + MARK.length)
  if (preset != null && preset !== slug)
    throw invalid('preset: expected the one that model names, or none', 'preset')
  return { slug, model: at === 0 ? undefined : model.slice(0, at) }
}

/** Returns the body with the models that it requests, or else the preset's, or none. */
function modelled<Body extends Naming>(
  { preset: _, model: __, ...body }: Body,
  model: string | undefined,
  config: Json,
): Body {
  const wanted = model ?? text(config.model)
  const models = body.models ?? config.models
  return {
    ...body,
    ...(wanted === null ? {} : { model: wanted }),
    ...(models === undefined ? {} : { models }),
  } as unknown as Body
}

// The models of the result are unused: the body already has them. The cache settings are removed
// because they are not for providers.
function understoodAlone(
  gateway: DialectWorld,
  actor: Actor,
  { system_prompt, config }: Draft,
  context: CallContext,
): TextCall {
  const { cache_enabled: _, cache_ttl_seconds: __, ...fields } = config
  const messages = system_prompt === null ? [] : [{ role: 'system', content: system_prompt }]
  return understand(gateway, actor, { ...fields, messages } as ChatRequest, context)
}

// A tool without a type of ours means what it would mean in the call's own dialect.
const saidIn = (dialect: TextDialect, tool: Tool): Tool =>
  tool.type === 'other' ? { ...tool, dialect } : tool

/** Merges the tools: the preset's first, each replaced by the call's tool of the same identity. */
function united(preset: Tool[], own: Tool[]): Tool[] {
  if (preset.length === 0) return own
  const ids = new Set(preset.map(identityOf))
  // Of the call's tools with the same identity the first counts.
  const owned = new Map(own.toReversed().map(tool => [identityOf(tool), tool]))
  const replaced = preset.map(tool => owned.get(identityOf(tool)) ?? tool)
  return [...replaced, ...own.filter(tool => !ids.has(identityOf(tool)))]
}

/** Server tools that a call may have more than once, each under a different name. */
const NAMED = ['openrouter:advisor', 'openrouter:subagent']

function identityOf(tool: Tool): string {
  if (tool.type === 'function') return `function ${tool.name}`
  const { type, parameters } = tool.value as { type: string; parameters?: unknown }
  return NAMED.includes(type) && isObject(parameters) ? `${type} ${parameters.name}` : type
}
