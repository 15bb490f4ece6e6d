import type { Draft } from '../catalog/presets/draft.ts'
import { usablePreset } from '../catalog/presets.ts'
import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isObject, type Json, text } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import type { TextDialect } from '../language/dialect.ts'
import type { Tool } from '../language/tool.ts'
import { understand as understandChat } from './chat/request.ts'
import type { ChatRequest } from './chat/schema.ts'
import type { CallContext, PresetForm } from './dialect.ts'
import type { DialectWorld } from './world.ts'

/**
 * Makes a draft of a checked body in any form: what it says of how to answer, in the chat API's
 * words. Throws 400 where its fields contradict each other, or it names a preset itself: a preset
 * stands on its own.
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
 * A dialect's way to understand, with the preset laid under the call that the body names: `@preset/slug` or `model@preset/slug` for
 * its model, or `preset`. Field by field the call rules; tools are united, and the preset's system prompt comes first (wire
 * reference I). Laid under the call and not under the body, so that it does not matter in which dialect either was said.
 * Throws 404 for a preset that cannot be used, and 400 where two are named.
 */
export const withPresets =
  <Body extends Naming>(understand: Understand<Body>): Understand<Body> =>
  (gateway, actor, body, context) => {
    const named = namedIn(body)
    if (!named) return understand(gateway, actor, body, context)
    const { id, designated_version } = usablePreset(gateway, actor, named.slug)
    const call = understand(
      gateway,
      actor,
      modelled(body, named.model, designated_version.config),
      context,
    )
    const under = understoodAlone(gateway, actor, designated_version, context)
    return {
      ...call,
      preset_id: id,
      // Of a call without preferences there is only what `route` says, and the workspace's own sort.
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

/** What the body asked for, in its own words. */
const requestedBy = ({ model, models }: Naming, slug: string): string =>
  model ?? models?.[0] ?? MARK + slug

// Plugin by plugin, like everything else.
const pluginsUnder = (
  { plugins: under }: TextCall,
  { plugins: own }: TextCall,
): Pick<TextCall, 'plugins'> => (under || own ? { plugins: { ...under, ...own } } : {})

const MARK = '@preset/'

/** The preset that a body names, and the model that it names beside it. */
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

/** The body with the models that it asks for, or else the preset's; neither names none. */
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

// Of this the models are not looked at: they stand in the body by now. What only a cache would heed is not for a provider.
function understoodAlone(
  gateway: DialectWorld,
  actor: Actor,
  { system_prompt, config }: Draft,
  context: CallContext,
): TextCall {
  const { cache_enabled: _, cache_ttl_seconds: __, ...fields } = config
  const messages = system_prompt === null ? [] : [{ role: 'system', content: system_prompt }]
  return understandChat(gateway, actor, { ...fields, messages } as ChatRequest, context)
}

// A tool that we have no word for means what it would have meant in the call.
const saidIn = (dialect: TextDialect, tool: Tool): Tool =>
  tool.type === 'other' ? { ...tool, dialect } : tool

/** The preset's tools first, each replaced by the call's own of the same identity; then the call's others. */
function united(preset: Tool[], own: Tool[]): Tool[] {
  if (preset.length === 0) return own
  const ids = new Set(preset.map(identityOf))
  // Of two of one identity the first.
  const owned = new Map(own.toReversed().map(tool => [identityOf(tool), tool]))
  const replaced = preset.map(tool => owned.get(identityOf(tool)) ?? tool)
  return [...replaced, ...own.filter(tool => !ids.has(identityOf(tool)))]
}

/** Server tools that may be there more than once, each under a name of its own. */
const NAMED = ['openrouter:advisor', 'openrouter:subagent']

function identityOf(tool: Tool): string {
  if (tool.type === 'function') return `function ${tool.name}`
  const { type, parameters } = tool.value as { type: string; parameters?: unknown }
  return NAMED.includes(type) && isObject(parameters) ? `${type} ${parameters.name}` : type
}
