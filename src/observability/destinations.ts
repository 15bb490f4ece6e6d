import { getIsoTime, yieldToEventLoop } from '../base/clock.ts'
import { maskCredential } from '../base/credential.ts'
import { conflict, invalid, requireFound } from '../base/errors.ts'
import { isObject, parseObject, pickDefined } from '../base/json.ts'
import { toPage } from '../base/pages.ts'
import { compareOldestFirst } from '../base/sorting.ts'
import type { Region } from '../language/call.ts'
import { type Actor, requireManaged, resolveWorkspaceId } from '../resources/actor.ts'
import { defineAudit, identifyById } from '../resources/audit/entry.ts'
import { DROPPED_AT_ONCE } from './destinations/deliveries/store.ts'
import type { DestinationKind, DestinationType } from './destinations/kind.ts'
import type { DestinationConfig, OpenedDestination } from './destinations/opened.ts'
import type { FilterRule, FilterRules } from './destinations/schema.ts'
import {
  CHANGEABLE,
  type DestinationChange,
  type DestinationQuery,
  FILTER_FIELDS,
  type NewDestination,
} from './destinations/schema.ts'
import { checkConfig } from './destinations/settings.ts'
import type { Destination } from './destinations/store.ts'
import type { DestinationWorld } from './destinations/world.ts'

/**
 * Masks a secret: its first and last four characters, as the public service does. Of a URL that
 * contains one, such as a DSN, only that is masked, so that it stays a URL.
 */
const maskSecret = (secret: string): string =>
  CREDENTIAL_IN_URL.test(secret)
    ? secret.replace(CREDENTIAL_IN_URL, maskCredential)
    : maskCredential(secret)

const CREDENTIAL_IN_URL = /(?<=^https?:\/\/)[^@/]+(?=@)/

/** The headers whose values are none: those that say what a body is, and who sends it. */
const PLAIN_HEADERS = new Set(['accept', 'content-language', 'user-agent'])

/** Whether the value of a header is a secret: it is, unless it is known to be none. */
const isSecretHeader = (name: string): boolean => !PLAIN_HEADERS.has(name.toLowerCase())

/** Replaces each secret of a config: its secret fields, and headers that are not known. */
function replaceSecrets(
  { secrets }: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  replace: (secret: string) => string,
): DestinationConfig {
  const replaceField = ([name, value]: [string, unknown]): [string, unknown] => {
    if (name === 'headers' && isObject(value)) return [name, replaceHeaders(value, replace)]
    return [name, typeof value === 'string' && secrets.includes(name) ? replace(value) : value]
  }
  return Object.fromEntries(Object.entries(config).map(replaceField))
}

const replaceHeaders = (headers: Record<string, unknown>, replace: (secret: string) => string) =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      typeof value === 'string' && isSecretHeader(name) ? replace(value) : value,
    ]),
  )

/**
 * Merges a change into a config, field by field. Null removes a field. A secret that equals its
 * mask stays as it is: it was read from an answer and sent back.
 */
function mergeConfig(
  kind: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  change: DestinationConfig,
): DestinationConfig {
  const merged = new Map(Object.entries(config))
  for (const [name, value] of Object.entries(change))
    if (value === null) merged.delete(name)
    else if (name === 'headers') merged.set(name, mergeHeaders(config.headers, value))
    else if (!(kind.secrets.includes(name) && isMaskOf(value, config[name])))
      merged.set(name, value)
  return Object.fromEntries(merged)
}

const isMaskOf = (value: unknown, secret: unknown): boolean =>
  typeof secret === 'string' && value === maskSecret(secret)

function mergeHeaders(before: unknown, after: unknown): unknown {
  if (!isObject(before) || !isObject(after)) return after
  return Object.fromEntries(
    Object.entries(after).map(([name, value]) => [
      name,
      Object.hasOwn(before, name) && isMaskOf(value, before[name]) ? before[name] : value,
    ]),
  )
}

/** Finds a secret that stays although the config changes, by its path; null if none does. */
function findKeptSecret(
  kind: Pick<DestinationKind, 'secrets'>,
  config: DestinationConfig,
  change: DestinationConfig,
): string | null {
  const field = kind.secrets.find(
    name =>
      typeof config[name] === 'string' &&
      (change[name] === undefined || isMaskOf(change[name], config[name])),
  )
  if (field !== undefined) return `config.${field}`
  const headers = isObject(config.headers) ? Object.entries(config.headers) : []
  const isKept = ([name, value]: [string, unknown]) => {
    if (typeof value !== 'string' || !isSecretHeader(name)) return false
    const next = change.headers
    return next === undefined || (isObject(next) && isMaskOf(next[name], value))
  }
  return headers.some(isKept) ? 'config.headers' : null
}

/** The most destinations of one type in one workspace (specification E7). */
const MOST_OF_TYPE = 5

/**
 * Adds a destination to a workspace (specification E7). Its config is sealed. Throws 400 naming the
 * field for a config that its type does not have, for a URL that may not be called, for filter rules
 * that make no sense and for API keys that do not exist; 409 where the workspace has five of this
 * type.
 */
export async function createDestination(
  world: DestinationWorld,
  actor: Actor,
  input: NewDestination,
) {
  if (input.filter_rules) await checkFilterRules(input.filter_rules)
  const workspace_id = resolveWorkspaceId(world, actor, input.workspace_id)
  const kind = findKind(world, input.type)
  const id = world.ids.uuid()
  const now = getIsoTime(world)
  const settings = toSettings(world, workspace_id, input)
  const config = checkConfig(world, kind, input.config)
  checkCount(world, workspace_id, input.type)
  const destination: Destination = {
    ...DEFAULTS,
    ...settings,
    id,
    workspace_id,
    type: input.type,
    name: input.name,
    sealed: sealConfig(world, id, config),
    created_at: now,
    updated_at: now,
  }
  const opened = { destination, kind, config }
  const entry = auditDestination(world, actor, null, opened)
  await world.store.destinations.insert(destination, MOST_OF_TYPE, entry)
  world.memory.destinations.set(opened)
  return { data: showDestination(world, opened) }
}

/** The settings that a body may leave out. */
const DEFAULTS = {
  enabled: true,
  paused_at: null,
  api_key_hashes: null,
  regions: ['global' as Region],
  broadcast_generation_cost: false,
  broadcast_generation_identity: false,
  broadcast_generation_request_context: false,
  filter_rules: null,
  privacy_mode: false,
  sampling_rate: 1,
}

/** Lists one page of a workspace's destinations, oldest first. Throws 400 for a missing workspace. */
export function listDestinations(world: DestinationWorld, actor: Actor, query: DestinationQuery) {
  const workspace_id = resolveWorkspaceId(world, actor, query.workspace_id)
  const own = world.memory.destinations.listByWorkspace(workspace_id)
  const sorted = own.toSorted((a, b) => compareOldestFirst(a.destination, b.destination))
  return toPage(sorted, query, opened => showDestination(world, opened))
}

/** Gets a destination, with its secrets masked. Throws 404, also for one of another workspace. */
export const getDestination = (world: DestinationWorld, actor: Actor, id: string) => ({
  data: showDestination(world, requireDestination(world, actor, id)),
})

/**
 * Changes a destination. The config is merged field by field; null removes a field, and a secret
 * that equals its mask stays. Throws 404, 400 as `createDestination` does, and 400 where requests
 * would go to another host with a secret that was given for the old one.
 */
export async function updateDestination(
  world: DestinationWorld,
  actor: Actor,
  id: string,
  change: DestinationChange,
) {
  if (change.filter_rules) await checkFilterRules(change.filter_rules)
  const before = requireDestination(world, actor, id)
  const { workspace_id } = before.destination
  const config = change.config ? changeConfig(world, before, change.config) : before.config
  const changes: Partial<Destination> = {
    ...toSettings(world, workspace_id, change),
    ...(change.name === undefined ? {} : { name: change.name }),
    ...(change.config && config ? { sealed: sealConfig(world, id, config) } : {}),
    updated_at: getIsoTime(world),
  }
  return writeChange(world, actor, before, changes)
}

/** Writes changed fields of a destination, and shows it. */
async function writeChange(
  world: DestinationWorld,
  actor: Actor,
  before: OpenedDestination,
  changes: Partial<Destination>,
) {
  const { id } = before.destination
  const after = openDestination(world, { ...before.destination, ...changes }, before)
  const entry = auditDestination(world, actor, before, after)
  const changed = await world.memory.destinations.change(
    id,
    now => openDestination(world, { ...now.destination, ...changes }, now),
    () => world.store.destinations.update(id, changes, entry),
  )
  return { data: showDestination(world, requireFound(changed, NOUN)) }
}

/**
 * Stops sending to a destination; its calls are still kept for it. Throws 404.
 */
export const pauseDestination = (world: DestinationWorld, actor: Actor, id: string) =>
  writeChange(world, actor, requireDestination(world, actor, id), {
    paused_at: getIsoTime(world),
  })

/** Goes on sending to a destination, from where it was paused. Throws 404. */
export const resumeDestination = (world: DestinationWorld, actor: Actor, id: string) =>
  writeChange(world, actor, requireDestination(world, actor, id), { paused_at: null })

/**
 * Deletes a destination. Its config is erased, and what waits for it is not sent any more. Throws
 * 404.
 */
export async function deleteDestination(world: DestinationWorld, actor: Actor, id: string) {
  const before = requireDestination(world, actor, id)
  await dropWaiting(world, id)
  const entry = auditDestination(world, actor, before, null)
  await world.store.destinations.remove(id, entry.created_at, entry)
  world.memory.destinations.delete(id)
  return { deleted: true as const }
}

// In parts, as one transaction for a long queue would hold up calls. What comes meanwhile goes with
// the destination.
async function dropWaiting({ store: { deliveries } }: DestinationWorld, id: string): Promise<void> {
  while ((await deliveries.drop(id, DROPPED_AT_ONCE)).count === DROPPED_AT_ONCE)
    await yieldToEventLoop()
}

const NOUN = 'Destination'

/** Returns a destination that the actor manages. Throws 404. */
export function requireDestination(
  world: DestinationWorld,
  actor: Actor,
  id: string,
): OpenedDestination {
  const found = world.memory.destinations.get(id)
  requireManaged(world, actor, found?.destination, NOUN)
  return requireFound(found, NOUN)
}

/** Lists the destinations that were sealed with another secret than this gateway's. */
export const listUnreadableDestinations = ({ memory }: DestinationWorld): Destination[] =>
  memory.destinations.listUnreadable()

function findKind({ destinationKinds }: DestinationWorld, type: DestinationType): DestinationKind {
  const kind = destinationKinds.find(one => one.type === type)
  if (!kind) throw invalid(`type: expected a type that this gateway has`, 'type')
  return kind
}

// The store counts again in its transaction: others may be created at the same moment.
function checkCount({ memory }: DestinationWorld, workspace_id: string, type: DestinationType) {
  const own = memory.destinations.listByWorkspace(workspace_id)
  if (own.filter(({ destination }) => destination.type === type).length >= MOST_OF_TYPE)
    throw tooMany(type, MOST_OF_TYPE)
}

/** The refusal of one more destination of a type. */
export const tooMany = (type: string, most: number) =>
  conflict(`This workspace has ${most} destinations of the type ${type} already`)

/** Reads the settings that a body has. Throws 400 naming the field. */
function toSettings(
  world: DestinationWorld,
  workspace_id: string,
  input: DestinationChange,
): Partial<Destination> {
  const { regions, api_key_hashes } = input
  if (api_key_hashes) checkHashes(world, workspace_id, api_key_hashes)
  return {
    ...(pickDefined(input, CHANGEABLE) as Partial<Destination>),
    ...(regions ? { regions: toRegions(regions) } : {}),
  }
}

// An API key of another workspace counts as missing: the answer must not reveal that it exists.
function checkHashes({ memory }: DestinationWorld, workspace_id: string, hashes: string[]): void {
  if (!hashes.every(hash => memory.keys.get(hash)?.workspace_id === workspace_id))
    throw invalid('api_key_hashes: expected API keys that exist in its workspace', 'api_key_hashes')
}

const toRegions = (regions: (Region | 'eu')[]): Region[] => [
  ...new Set(regions.map(region => (region === 'eu' ? 'europe' : region))),
]

/**
 * Merges a change into the config. A secret goes to the host that it was given for and no other: to
 * whom may change the URL it was never shown.
 */
function changeConfig(
  world: DestinationWorld,
  { destination, config }: OpenedDestination,
  change: DestinationConfig,
): DestinationConfig {
  const kind = findKind(world, destination.type)
  const merged = checkConfig(world, kind, mergeConfig(kind, config ?? {}, change))
  const kept = config && findKeptSecret(kind, config, change)
  if (kept && kind.address.some(name => isOtherPlace(config[name], merged[name])))
    throw invalid(`${kept}: expected again, since requests go to another host from now on`, kept)
  return merged
}

/** Whether two values of a field name different hosts; any difference counts in other fields. */
function isOtherPlace(before: unknown, after: unknown): boolean {
  const [a, b] = [readOrigin(before), readOrigin(after)]
  return a === null || b === null ? before !== after : a !== b
}

const readOrigin = (value: unknown): string | null =>
  typeof value === 'string' ? (URL.parse(value)?.origin ?? null) : null

/**
 * Shows a destination as the wire does (wire reference G.1), with its secrets masked, and with a
 * warning where it is enabled and told nothing.
 */
function showDestination(
  world: DestinationWorld,
  { destination, kind, config }: OpenedDestination,
) {
  const { sealed: _, paused_at: __, ...shown } = destination
  return {
    ...shown,
    config: kind && config ? replaceSecrets(kind, config, maskSecret) : {},
    ...warnOfSwitch(world, destination),
  }
}

/** Says what else is off where a destination is enabled and its workspace tells none. */
export function warnOfSwitch(
  { memory: { workspaces } }: Pick<DestinationWorld, 'memory'>,
  { enabled, workspace_id }: Destination,
): { warning?: string } {
  const workspace = workspaces.get(workspace_id)
  if (!enabled || !workspace || workspace.is_observability_broadcast_enabled) return {}
  return {
    warning:
      `Nothing is sent: is_observability_broadcast_enabled is off in the workspace ` +
      `${workspace.slug} (gateway workspaces update ${workspace.slug} --broadcast yes)`,
  }
}

/** A destination as the audit trail sees it: with its config. */
type AuditedDestination = Destination & { opened: OpenedDestination }

const auditRecord = defineAudit<AuditedDestination, DestinationWorld>('destinations', {
  identify: identifyById,
  show: ({ opened: { destination, kind, config } }, { secrets }) => {
    const { sealed: _, ...shown } = destination
    return {
      ...shown,
      config: kind && config ? replaceSecrets(kind, config, secrets.fingerprint) : null,
    }
  },
})

/** Makes the audit entry of a change of a destination. Of secrets it has fingerprints only. */
const auditDestination = (
  world: DestinationWorld,
  actor: Parameters<typeof auditRecord>[1],
  before: OpenedDestination | null,
  after: OpenedDestination | null,
) => auditRecord(world, actor, addOpened(before), addOpened(after))

const addOpened = (opened: OpenedDestination | null): AuditedDestination | null =>
  opened && { ...opened.destination, opened }

/** Seals a config for its destination. */
function sealConfig(world: DestinationWorld, id: string, config: DestinationConfig): string {
  const nonce = Buffer.from(world.ids.secret(), 'hex').subarray(-12)
  return world.secrets.destinationSeal().seal(JSON.stringify(config), id, nonce)
}

/** Decrypts a destination. Keeps what `before` has if the config is the same. */
export function openDestination(
  world: DestinationWorld,
  destination: Destination,
  before?: OpenedDestination,
): OpenedDestination {
  if (before?.destination.sealed === destination.sealed) return { ...before, destination }
  const kind = world.destinationKinds.find(({ type }) => type === destination.type) ?? null
  return { destination, kind, config: decryptConfig(world, destination) }
}

// A gateway without a secret decrypts nothing and runs all the same.
function decryptConfig(
  world: DestinationWorld,
  { id, sealed }: Destination,
): DestinationConfig | null {
  try {
    return parseObject(world.secrets.destinationSeal().open(sealed, id) ?? '') ?? null
  } catch {
    return null
  }
}

/** Reads every destination and decrypts it. */
export async function readDestinations(
  world: DestinationWorld,
  ids?: string[],
): Promise<OpenedDestination[]> {
  const destinations = await world.store.destinations.all(ids)
  return destinations.map(destination =>
    openDestination(world, destination, world.memory.destinations.get(destination.id)),
  )
}

const NUMERIC = ['equals', 'not_equals', 'gt', 'lt', 'gte', 'lte']

const TEXTUAL = [
  ...['equals', 'not_equals', 'contains', 'not_contains', 'regex', 'starts_with', 'ends_with'],
  ...['exists', 'not_exists'],
]

/**
 * Checks what the schema of filter rules cannot say: that the operator suits its field, and the
 * value its operator. Throws 400 naming the field of the rule.
 */
async function checkFilterRules(rules: FilterRules): Promise<void> {
  for (const [i, group] of rules.groups.entries())
    for (const [k, rule] of group.rules.entries())
      await checkRule(rule as FilterRule, `filter_rules.groups.${i}.rules.${k}`)
}

async function checkRule({ field, operator, value }: FilterRule, path: string): Promise<void> {
  const isNumber = FILTER_FIELDS[field] === 'number'
  const operators = isNumber ? NUMERIC : TEXTUAL
  if (!operators.includes(operator))
    throw refusal(`${path}.operator`, `one of ${operators.join(', ')} for ${field}`)
  if (operator === 'exists' || operator === 'not_exists') {
    if (value !== undefined) throw refusal(`${path}.value`, `nothing for ${operator}`)
    return
  }
  const expected = isNumber ? 'number' : 'string'
  if (typeof value !== expected) throw refusal(`${path}.value`, `a ${expected} for ${field}`)
  if (operator !== 'regex') return
  const { getPatternProgram } = await import('../limits/patterns.ts')
  getPatternProgram(String(value), `${path}.value`)
}

const refusal = (path: string, expected: string) => invalid(`${path}: expected ${expected}`, path)
