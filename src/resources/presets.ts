import { getIsoTime } from '../base/clock.ts'
import { maskCredential, replaceCredentials } from '../base/credential.ts'
import { denied, invalid, notFound, requireFound } from '../base/errors.ts'
import { isLargeJson, isObject, isRawJson } from '../base/json.ts'
import { overlay } from '../base/mirror.ts'
import { PAGE_SIZE, toPage } from '../base/pages.ts'
import { compareNewestFirst } from '../base/sorting.ts'
import type { Actor } from './actor.ts'
import { defineAudit, identifyById } from './audit/entry.ts'
import type { CatalogWorld } from './catalog-world.ts'
import type { PresetDraft } from './presets/draft.ts'
import { buildPresetQuota } from './presets/quota.ts'
import type { PresetChange, PresetQuery } from './presets/schema.ts'
import type { DesignatedPreset, Preset, PresetVersion } from './presets/store.ts'

/**
 * Returns the content of a preset as the API shows it: what is a credential, by its name or by its
 * look, is masked. Calls alone use it whole.
 */
const maskContent = <Content extends PresetDraft>(content: Content): Content => ({
  ...content,
  system_prompt: maskValue(content.system_prompt),
  config: maskValue(content.config),
})

const maskValue = <Value>(value: Value): Value =>
  replaceCredentials(value, {
    whole: maskCredential,
    partial: (text, spans) =>
      spans.reduceRight(
        (masked, { start, end }) =>
          masked.slice(0, start) + maskCredential(text.slice(start, end)) + masked.slice(end),
        text,
      ),
  }) as Value

/**
 * Puts credentials back that were read masked and are sent again: a text that equals what is shown
 * of the one at its place. Throws 400 where that would go to another address from now on.
 */
function restoreContent(draft: PresetDraft, before: PresetDraft): PresetDraft {
  const restore = <Value>(name: 'system_prompt' | 'config', value: Value): Value =>
    restoreValue(value, { path: name, value: before[name], shown: maskValue(before[name]) }, false)
  return {
    system_prompt: restore('system_prompt', draft.system_prompt),
    config: restore('config', draft.config),
  }
}

/** What stood at a place, and what is shown of it. */
interface Earlier {
  path: string
  value: unknown
  shown: unknown
}

/** The fields that say where an object's credentials are sent. */
const ADDRESSES = ['server_url', 'url', 'base_url']

function restoreValue<Value>(value: Value, earlier: Earlier, isElsewhere: boolean): Value {
  if (typeof value === 'string') return restoreText(value, earlier, isElsewhere) as Value
  if (typeof value !== 'object' || value === null || isRawJson(value)) return value
  const isMoved =
    isElsewhere ||
    ADDRESSES.some(name => {
      const next = getMember(value, name)
      return next !== getMember(earlier.value, name) && next !== getMember(earlier.shown, name)
    })
  const restoreMember = (name: string, member: unknown) =>
    restoreValue(
      member,
      {
        path: `${earlier.path}.${name}`,
        value: getMember(earlier.value, name),
        shown: getMember(earlier.shown, name),
      },
      isMoved,
    )
  if (Array.isArray(value)) return value.map((one, i) => restoreMember(`${i}`, one)) as Value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, restoreMember(name, member)]),
  ) as Value
}

function restoreText(text: string, { path, value, shown }: Earlier, isElsewhere: boolean): unknown {
  if (text !== shown || text === value) return text
  if (!isElsewhere) return value
  throw invalid(`${path}: expected again, since it goes to another address from now on`, path)
}

const getMember = (value: unknown, name: string): unknown =>
  (isObject(value) || Array.isArray(value)) && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined

/**
 * Creates a preset, or the next version of an existing one, which is used from then on. A disabled
 * preset stays disabled. Throws 400 for a slug that cannot be part of a URL or for too large a
 * config, 403 for a management key and above the workspace's bounds for presets, 404 for an
 * archived preset, and 409 when another request created the same version at the same moment.
 */
export async function createPreset(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
  draft: PresetDraft,
) {
  if (actor.kind === 'management') throw denied('Management keys cannot create presets')
  checkDraftSize(draft)
  const existing = world.memory.presets.get(
    buildPresetName({ workspace_id: actor.workspace_id, slug: parsePresetSlug(slug) }),
  )
  if (existing?.status === 'archived') throw notFound('This preset is archived')
  const made = existing
    ? await addVersion(world, actor, existing, restoreContent(draft, existing.designated_version))
    : await createFirstVersion(world, actor, slug, draft)
  return { data: showDesignated(made) }
}

async function createFirstVersion(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
  draft: PresetDraft,
): Promise<DesignatedPreset> {
  const { workspace_id, user_id } = actor
  const [id, now] = [world.ids.uuid(), getIsoTime(world)]
  const designated_version = buildVersion(world, draft, {
    preset_id: id,
    version: 1,
    creator_id: user_id,
  })
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
  const quota = buildPresetQuota(world.config, workspace_id)
  await world.store.presets.insert(preset, auditPreset(world, actor, null, preset), quota)
  world.memory.presets.set(preset)
  return preset
}

async function addVersion(
  world: CatalogWorld,
  actor: Actor,
  existing: DesignatedPreset,
  draft: PresetDraft,
): Promise<DesignatedPreset> {
  const version = buildVersion(world, draft, {
    preset_id: existing.id,
    version: existing.designated_version.version + 1,
    creator_id: actor.user_id,
  })
  const change = {
    designated_version_id: version.id,
    updated_at: version.created_at,
    designated_version: version,
  }
  const entry = auditPreset(world, actor, existing, { ...existing, ...change })
  const quota = buildPresetQuota(world.config, existing.workspace_id)
  const write = () => world.store.presets.designate(version, version.created_at, entry, quota)
  const changed = await world.memory.presets.change(
    buildPresetName(existing),
    overlay(change),
    write,
  )
  return requireFound(changed, 'Preset')
}

function buildVersion(
  world: CatalogWorld,
  draft: PresetDraft,
  about: Pick<PresetVersion, 'preset_id' | 'version' | 'creator_id'>,
): PresetVersion {
  const now = getIsoTime(world)
  return { id: world.ids.uuid(), ...about, ...draft, created_at: now, updated_at: now }
}

/** Lists one page of a workspace's presets, most recently updated first. */
export function listPresets(world: CatalogWorld, actor: Actor, query: PresetQuery) {
  const presets = listWorkspacePresets(world, actor.workspace_id)
  return toPage(presets.sort(compareNewestFirst('updated_at', 'slug')), query, showPreset)
}

/**
 * Returns one preset with its current version, whatever its status. Throws 400 for an invalid slug,
 * and 404.
 */
export const getPreset = (world: CatalogWorld, actor: Actor, slug: string) => ({
  data: showDesignated(requirePreset(world, actor, parsePresetSlug(slug))),
})

/** Lists one page of a preset's versions, oldest first. Throws 400 for an invalid slug, and 404. */
export async function listPresetVersions(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
  { offset = 0, limit = PAGE_SIZE }: PresetQuery,
) {
  const { id, designated_version } = requirePreset(world, actor, parsePresetSlug(slug))
  // The newest version is the current one, and no version is ever removed.
  return {
    data: (await world.store.presets.listVersions(id, offset, limit)).map(maskContent),
    total_count: designated_version.version,
  }
}

const NUMBER = /^[1-9]\d{0,8}$/

/** Returns one version of a preset. Throws 400 for an invalid slug or version number, and 404. */
export async function getPresetVersion(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
  number: string,
) {
  if (!NUMBER.test(number)) throw invalid('version: expected a whole number from 1', 'version')
  const { id } = requirePreset(world, actor, parsePresetSlug(slug))
  const version = await world.store.presets.findVersion(id, Number(number))
  return { data: maskContent(requireFound(version, 'Preset version')) }
}

/** Changes whether a preset can be used. Throws 400 for an invalid slug, and 404. */
export async function updatePreset(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
  { status }: PresetChange,
) {
  const preset = requirePreset(world, actor, parsePresetSlug(slug))
  const updated_at = getIsoTime(world)
  const change = { status, status_updated_at: updated_at, updated_at }
  const before = showPreset(preset)
  const entry = auditPreset(world, actor, before, { ...before, ...change })
  const write = () => world.store.presets.update(preset.id, change, entry)
  const changed = await world.memory.presets.change(buildPresetName(preset), overlay(change), write)
  return { data: showDesignated(requireFound(changed, 'Preset')) }
}

/**
 * Returns the preset that a call names. Throws 404 for one that is missing, disabled or archived.
 */
export function requireUsablePreset(
  world: CatalogWorld,
  actor: Actor,
  slug: string,
): DesignatedPreset {
  const preset = requirePreset(world, actor, slug)
  if (preset.status !== 'active') throw notFound(`This preset is ${preset.status}`)
  return preset
}

/** Builds the name of a preset, unique among all workspaces. No id has a slash. */
export const buildPresetName = ({
  workspace_id,
  slug,
}: Pick<Preset, 'workspace_id' | 'slug'>): string => `${workspace_id}/${slug}`

const listWorkspacePresets = (world: CatalogWorld, workspace_id: string): DesignatedPreset[] =>
  world.memory.presets.filter(preset => preset.workspace_id === workspace_id)

const requirePreset = (
  world: CatalogWorld,
  { workspace_id }: Actor,
  slug: string,
): DesignatedPreset =>
  requireFound(world.memory.presets.get(buildPresetName({ workspace_id, slug })), 'Preset')

// The unreserved characters of RFC 3986, 2.3, without the names that paths resolve.
const SLUG = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$/

function parsePresetSlug(slug: string): string {
  if (!SLUG.test(slug))
    throw invalid(
      'slug: expected 1 to 100 letters, digits, ".", "_", "~" or "-", first a letter or a digit',
      'slug',
    )
  return slug
}

/** Returns a preset as lists show it, without its current version. */
const showPreset = ({ designated_version: _, ...preset }: DesignatedPreset): Preset => preset

/** Returns a preset with its current version, whose credentials are masked. */
const showDesignated = (preset: DesignatedPreset): DesignatedPreset => ({
  ...preset,
  designated_version: maskContent(preset.designated_version),
})

/** Makes the audit entry of a change of a preset. */
const auditPreset = defineAudit<Preset>('presets', { identify: identifyById })

/**
 * The most bytes of a version, system prompt and config together. It stays in memory as long as it
 * is current.
 */
const MAX_BYTES = 256 * 1024

/** Throws 400 for a draft that is too large to keep. */
function checkDraftSize({ system_prompt, config }: PresetDraft): void {
  // What is large has more bytes than that, and need not be counted.
  const size = isLargeJson(config)
    ? Number.POSITIVE_INFINITY
    : Buffer.byteLength(system_prompt ?? '') + Buffer.byteLength(JSON.stringify(config))
  if (size > MAX_BYTES) throw invalid(`body: expected at most ${MAX_BYTES} bytes to keep`)
}
