import { type Static, Type } from '@sinclair/typebox'
import { denied, invalid, notFound } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { type AuditEntry, auditEntry } from '../identity/audit.ts'
import type { Json } from '../kernel/json.ts'
import type { CatalogWorld } from './world.ts'

const STATUSES = ['active', 'disabled', 'archived'] as const

/** A configuration by name: how a workspace wants its calls answered (wire reference A.5 and I). Times in ISO 8601. */
export interface Preset {
  id: string
  workspace_id: string
  slug: string
  name: string
  description: string | null
  status: (typeof STATUSES)[number]
  status_updated_at: string | null
  creator_user_id: string | null
  /** The version that calls are made with: the newest. */
  designated_version_id: string
  created_at: string
  updated_at: string
}

/** What a preset says, once and for all: a change is another version, counted from 1. */
export interface PresetVersion {
  id: string
  preset_id: string
  version: number
  creator_id: string
  system_prompt: string | null
  /** Fields of a chat request, whichever dialect they came in. */
  config: Json
  created_at: string
  updated_at: string
}

/** A preset with the version that is used. */
export interface DesignatedPreset extends Preset {
  designated_version: PresetVersion
}

/** Remembers presets. A slug is unique in its workspace, a version's number in its preset: 409 for a second one. */
export interface PresetStore {
  all(): Promise<DesignatedPreset[]>
  /** A new preset with its first version, both or neither. */
  insert(preset: DesignatedPreset, entry: AuditEntry): Promise<void>
  /** Another version, which is used from now on, both or neither. */
  designate(version: PresetVersion, updated_at: string, entry: AuditEntry): Promise<void>
  update(id: string, change: Partial<Preset>, entry: AuditEntry): Promise<void>
  /** Some of a preset's versions, the oldest first. */
  versions(preset_id: string, offset: number, limit: number): Promise<PresetVersion[]>
  version(preset_id: string, version: number): Promise<PresetVersion | undefined>
}

/**
 * What a preset may hold of a request, by the chat API's names: what says how to answer. What is asked (`messages`, `prompt`), how
 * it is sent (`stream`) and for whom it is (`user`, `session_id`, `trace`, `metadata`, `debug`) belongs to one call and is not kept;
 * neither is what nobody knows, or a preset would send a provider what no request can take back.
 */
const CONFIG_KEYS = [
  ...['model', 'models', 'route', 'provider', 'plugins'],
  ...['max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'min_p', 'top_a', 'seed', 'stop'],
  ...['frequency_penalty', 'presence_penalty', 'repetition_penalty', 'logit_bias', 'logprobs', 'top_logprobs'],
  ...['response_format', 'prediction', 'tools', 'tool_choice', 'parallel_tool_calls', 'web_search_options'],
  ...['reasoning', 'reasoning_effort', 'include_reasoning', 'verbosity', 'modalities', 'audio', 'image_config', 'service_tier'],
  ...['cache_control', 'prompt_cache_key', 'prompt_cache_options', 'cache_enabled', 'cache_ttl_seconds'],
]

/** What of a body in the chat API's words a preset keeps. Null is absence. */
export const configOf = (body: Json): Json => Object.fromEntries(CONFIG_KEYS.filter(key => body[key] != null).map(key => [key, body[key]]))

/** What a preset is made of, whichever dialect it was asked for in. */
export type Draft = Pick<PresetVersion, 'system_prompt' | 'config'>

/** The query of `GET /presets` and of `GET /presets/{slug}/versions`. */
export const PresetQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export type PresetQuery = Static<typeof PresetQuery>

/** What the terminal may change of a preset. The public API changes none of it. */
export const PresetChange = Type.Object({ status: Type.Union(STATUSES.map(status => Type.Literal(status))) })
export type PresetChange = Static<typeof PresetChange>

const PAGE = 50
/** Bytes of a version, system prompt and config together. It is in memory as long as it is used. */
const LARGEST = 256 * 1024
/** Presets of one workspace. */
const MOST = 1_000

/**
 * Creates a preset, or the next version of one that exists, which is used from then on. A disabled preset stays disabled.
 * Throws 400 for a slug that cannot stand in a URL or too large a config, 403 for a management key, 404 for an archived preset,
 * and 409 when another made the same version at the same moment.
 */
export async function createPreset(gateway: CatalogWorld, actor: Actor, slug: string, draft: Draft) {
  if (actor.kind === 'management') throw denied('Management keys cannot create presets')
  checkSize(draft)
  const existing = gateway.memory.presets.get(nameOf(actor.workspace_id, checkedSlug(slug)))
  if (existing?.status === 'archived') throw notFound('This preset is archived')
  return { data: existing ? await nextVersion(gateway, actor, existing, draft) : await firstVersion(gateway, actor, slug, draft) }
}

async function firstVersion(gateway: CatalogWorld, actor: Actor, slug: string, draft: Draft): Promise<DesignatedPreset> {
  const { workspace_id, user_id } = actor
  if (presetsOf(gateway, workspace_id).length >= MOST) throw invalid(`slug: expected at most ${MOST} presets in a workspace`, 'slug')
  const [id, now] = [gateway.ids.uuid(), gateway.clock.now().toISOString()]
  const designated_version = versionOf(gateway, id, 1, user_id, draft)
  const preset: DesignatedPreset = {
    id,
    workspace_id,
    slug,
    name: slug,
    description: null,
    status: 'active',
    status_updated_at: null,
    creator_user_id: user_id,
    designated_version_id: designated_version.id,
    created_at: now,
    updated_at: now,
    designated_version,
  }
  await gateway.store.presets.insert(preset, auditEntry(gateway, actor, 'presets.create', preset, null, preset))
  return kept(gateway, preset)
}

async function nextVersion(gateway: CatalogWorld, actor: Actor, existing: DesignatedPreset, draft: Draft): Promise<DesignatedPreset> {
  const version = versionOf(gateway, existing.id, existing.designated_version.version + 1, actor.user_id, draft)
  const change = { designated_version_id: version.id, updated_at: version.created_at, designated_version: version }
  const entry = auditEntry(gateway, actor, 'presets.update', existing, existing, { ...existing, ...change })
  await gateway.store.presets.designate(version, version.created_at, entry)
  return kept(gateway, { ...asItIsNow(gateway, existing), ...change })
}

function versionOf(gateway: CatalogWorld, preset_id: string, version: number, creator_id: string, draft: Draft): PresetVersion {
  const now = gateway.clock.now().toISOString()
  return { id: gateway.ids.uuid(), preset_id, version, creator_id, ...draft, created_at: now, updated_at: now }
}

// It may have changed while the store was writing.
const asItIsNow = (gateway: CatalogWorld, preset: DesignatedPreset) =>
  gateway.memory.presets.get(nameOf(preset.workspace_id, preset.slug)) ?? preset

function kept(gateway: CatalogWorld, preset: DesignatedPreset): DesignatedPreset {
  gateway.memory.presets.set(nameOf(preset.workspace_id, preset.slug), preset)
  return preset
}

/** One page of a workspace's presets, the last updated first. */
export function listPresets(gateway: CatalogWorld, actor: Actor, { offset = 0, limit = PAGE }: PresetQuery) {
  const presets = presetsOf(gateway, actor.workspace_id).sort(byUpdate)
  return { data: presets.slice(offset, offset + limit).map(withoutVersion), total_count: presets.length }
}

const byUpdate = (a: Preset, b: Preset) =>
  a.updated_at === b.updated_at ? (a.slug < b.slug ? -1 : 1) : a.updated_at < b.updated_at ? 1 : -1

const withoutVersion = ({ designated_version: _, ...preset }: DesignatedPreset): Preset => preset

/** One preset with the version that is used, whatever its status. Throws 400 for what is no slug, and 404. */
export const getPreset = (gateway: CatalogWorld, actor: Actor, slug: string) => ({ data: presetOf(gateway, actor, checkedSlug(slug)) })

/** One page of a preset's versions, the oldest first. Throws 400 for what is no slug, and 404. */
export async function listPresetVersions(gateway: CatalogWorld, actor: Actor, slug: string, { offset = 0, limit = PAGE }: PresetQuery) {
  const { id, designated_version } = presetOf(gateway, actor, checkedSlug(slug))
  // The newest is the one that is used, and none is ever removed.
  return { data: await gateway.store.presets.versions(id, offset, limit), total_count: designated_version.version }
}

const NUMBER = /^[1-9]\d{0,8}$/

/** One version of a preset. Throws 400 for what is no slug or no number of a version, and 404. */
export async function getPresetVersion(gateway: CatalogWorld, actor: Actor, slug: string, number: string) {
  if (!NUMBER.test(number)) throw invalid('version: expected a whole number from 1', 'version')
  const { id } = presetOf(gateway, actor, checkedSlug(slug))
  const version = await gateway.store.presets.version(id, Number(number))
  if (!version) throw notFound('Preset version not found')
  return { data: version }
}

/** Changes whether a preset can be used. Throws 400 for what is no slug, and 404. */
export async function updatePreset(gateway: CatalogWorld, actor: Actor, slug: string, { status }: PresetChange) {
  const preset = presetOf(gateway, actor, checkedSlug(slug))
  const now = gateway.clock.now().toISOString()
  const change = { status, status_updated_at: now, updated_at: now }
  const entry = auditEntry(gateway, actor, 'presets.update', preset, withoutVersion(preset), { ...withoutVersion(preset), ...change })
  await gateway.store.presets.update(preset.id, change, entry)
  return { data: kept(gateway, { ...asItIsNow(gateway, preset), ...change }) }
}

/** The preset that a call names. Throws 404 for one that is not there, disabled or archived. */
export function usablePreset(gateway: CatalogWorld, actor: Actor, slug: string): DesignatedPreset {
  const preset = presetOf(gateway, actor, slug)
  if (preset.status !== 'active') throw notFound(`This preset is ${preset.status}`)
  return preset
}

/** Reads every preset, by its workspace and slug. Versions that are no longer used stay in the store. */
export async function readPresets(store: PresetStore): Promise<Map<string, DesignatedPreset>> {
  return new Map((await store.all()).map(preset => [nameOf(preset.workspace_id, preset.slug), preset]))
}

// No id has a slash.
const nameOf = (workspace_id: string, slug: string) => `${workspace_id}/${slug}`

const presetsOf = (gateway: CatalogWorld, workspace_id: string): DesignatedPreset[] =>
  [...gateway.memory.presets.values()].filter(preset => preset.workspace_id === workspace_id)

function presetOf(gateway: CatalogWorld, actor: Actor, slug: string): DesignatedPreset {
  const preset = gateway.memory.presets.get(nameOf(actor.workspace_id, slug))
  if (!preset) throw notFound('Preset not found')
  return preset
}

// The unreserved characters of RFC 3986, 2.3, and none of the names that paths resolve.
const SLUG = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$/

function checkedSlug(slug: string): string {
  if (!SLUG.test(slug)) throw invalid('slug: expected 1 to 100 letters, digits, ".", "_", "~" or "-", first a letter or a digit', 'slug')
  return slug
}

function checkSize({ system_prompt, config }: Draft): void {
  const size = Buffer.byteLength(system_prompt ?? '') + Buffer.byteLength(JSON.stringify(config))
  if (size > LARGEST) throw invalid(`body: expected at most ${LARGEST} bytes to keep`)
}
