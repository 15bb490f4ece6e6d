import { getIsoTime } from '../base/clock.ts'
import { maskCredential } from '../base/credential.ts'
import { conflict, invalid, requireFound } from '../base/errors.ts'
import { omitUndefined, parseObject } from '../base/json.ts'
import { overlay } from '../base/mirror.ts'
import { toPage } from '../base/pages.ts'
import { compareOldestFirst } from '../base/sorting.ts'
import { parseUntrustedUrl, refusePrivateHost } from '../network/untrusted-url.ts'
import { type Actor, requireManaged, resolveWorkspaceId } from '../resources/actor.ts'
import { defineAudit, identifyById } from '../resources/audit/entry.ts'
import {
  type AlertChange,
  type AlertQuery,
  type AlertReceiver,
  describeCause,
  type NewAlert,
} from './alerts/schema.ts'
import type { Alert } from './alerts/store.ts'
import type { AlertWorld } from './alerts/world.ts'

/** The most alerts of one workspace. */
const MOST = 100

/**
 * Adds an alert to a workspace. Its receiver is sealed. Throws 400 naming the field for a threshold
 * or a scope that its cause does not have, for what does not exist in its workspace and for a URL
 * that may not be called; 409 where the workspace has a hundred.
 */
export async function createAlert(world: AlertWorld, actor: Actor, input: NewAlert) {
  const { name, cause, to, disabled = false } = input
  const workspace_id = resolveWorkspaceId(world, actor, input.workspace_id)
  const id = world.ids.uuid()
  const now = getIsoTime(world)
  const { hasWindow, thresholds } = describeCause(cause)
  const alert: Alert = {
    ...{ id, workspace_id, name, cause },
    thresholds: sortThresholds(cause, input.thresholds ?? thresholds),
    window: input.window ?? (hasWindow ? 'daily' : null),
    key_hash: input.key_hash ?? null,
    provider: input.provider ?? null,
    destination_id: input.destination_id ?? null,
    sealed: sealReceiver(world, id, to),
    ...{ disabled, created_at: now, updated_at: now },
  }
  checkAlert(world, alert)
  checkScope(world, alert)
  checkReceiver(world, to)
  await world.store.alerts.insert(alert, MOST, auditAlert(world, actor, null, alert))
  world.memory.alerts.set(alert)
  return { data: showAlert(world, alert) }
}

/** Lists one page of a workspace's alerts, oldest first. Throws 400 for a missing workspace. */
export function listAlerts(world: AlertWorld, actor: Actor, query: AlertQuery) {
  const workspace_id = resolveWorkspaceId(world, actor, query.workspace_id)
  const own = world.memory.alerts.filter(alert => alert.workspace_id === workspace_id)
  return toPage(own.sort(compareOldestFirst), query, alert => showAlert(world, alert))
}

/**
 * Gets an alert, with its secrets masked, and what became of what it has told. Throws 404, also for
 * one of another workspace.
 */
export async function getAlert(world: AlertWorld, actor: Actor, id: string) {
  const alert = requireAlert(world, actor, id)
  const notices = await world.store.alerts.countNotices(id)
  return { data: { ...showAlert(world, alert), notices } }
}

/**
 * Changes an alert. A receiver replaces the one before; a secret that equals its mask stays. Throws
 * 404, and 400 as `createAlert` does.
 */
export async function updateAlert(
  world: AlertWorld,
  actor: Actor,
  id: string,
  { to: sent, thresholds, ...input }: AlertChange,
) {
  const before = requireAlert(world, actor, id)
  const to = sent && keepSecret(openReceiver(world, before), sent)
  const change: Partial<Alert> = {
    ...omitUndefined(input),
    ...(thresholds ? { thresholds: sortThresholds(before.cause, thresholds) } : {}),
    ...(to ? { sealed: sealReceiver(world, id, to) } : {}),
    updated_at: getIsoTime(world),
  }
  const after = { ...before, ...change }
  checkAlert(world, after)
  // What it was given for may be deleted by now: that is no reason to keep it from being switched off.
  checkScope(world, { ...after, ...pickUnsent(input) })
  if (to) checkReceiver(world, to)
  const entry = auditAlert(world, actor, before, after)
  const changed = await world.memory.alerts.change(id, overlay(change), () =>
    world.store.alerts.update(id, change, entry),
  )
  return { data: showAlert(world, requireFound(changed, NOUN)) }
}

const SCOPES = ['key_hash', 'provider', 'destination_id'] as const
type Scope = Pick<Alert, (typeof SCOPES)[number]>

const pickUnsent = (input: Partial<Scope>): Partial<Scope> =>
  Object.fromEntries(SCOPES.filter(name => input[name] === undefined).map(name => [name, null]))

/** Deletes an alert, with what it was about to tell. Throws 404. */
export async function deleteAlert(world: AlertWorld, actor: Actor, id: string) {
  const before = requireAlert(world, actor, id)
  await world.store.alerts.remove(id, auditAlert(world, actor, before, null))
  world.memory.alerts.delete(id)
  return { deleted: true as const }
}

const NOUN = 'Alert'

/** Returns an alert that the actor manages. Throws 404. */
export const requireAlert = (world: AlertWorld, actor: Actor, id: string): Alert =>
  requireManaged(world, actor, world.memory.alerts.get(id), NOUN)

/** What alerts are read from. */
export type AlertReader = Pick<AlertWorld, 'secrets'> & {
  memory: Pick<AlertWorld['memory'], 'alerts'>
}

/** Lists the alerts whose receiver was sealed with another secret than this gateway's. */
export const listUnreadableAlerts = (world: AlertReader): Alert[] =>
  world.memory.alerts.filter(alert => openReceiver(world, alert) === null)

/** The refusal of one more alert. */
export const tooManyAlerts = (most: number) => conflict(`This workspace has ${most} alerts already`)

const sortThresholds = (cause: Alert['cause'], thresholds: readonly number[]): number[] =>
  thresholds.toSorted((a, b) => (describeCause(cause).isFalling ? b - a : a - b))

/** Checks that an alert has the fields of its cause. Throws 400 naming the field. */
function checkAlert({ memory: { owner } }: AlertWorld, alert: Alert): void {
  const { cause, thresholds, window } = alert
  const { range, hasWindow, scope, isInstallations } = describeCause(cause)
  if (range === null && thresholds.length > 0) throw refuseField('thresholds', cause, 'none')
  if (range && thresholds.some(one => one <= range.above || one > range.most))
    throw refuseField('thresholds', cause, `${range.unit} above ${range.above} up to ${range.most}`)
  if (!hasWindow && window !== null) throw refuseField('window', cause, 'none')
  for (const name of SCOPES)
    if (name !== scope && alert[name] !== null) throw refuseField(name, cause, 'none')
  if (isInstallations && alert.workspace_id !== owner.workspace_id)
    throw refuseField('cause', cause, 'the default workspace')
}

const refuseField = (field: string, cause: string, expected: string) =>
  invalid(`${field}: expected ${expected} for ${cause}`, field)

// What another workspace has counts as missing: the answer must not reveal that it exists.
function checkScope({ memory, catalog }: AlertWorld, { workspace_id, ...scope }: Alert): void {
  const { key_hash, provider, destination_id } = scope
  if (key_hash !== null && memory.keys.get(key_hash)?.workspace_id !== workspace_id)
    throw invalid('key_hash: expected an API key that exists in its workspace', 'key_hash')
  if (provider !== null && !catalog.providers.has(provider))
    throw invalid('provider: expected the slug of a provider', 'provider')
  const destination = memory.destinations.get(destination_id ?? '')?.destination
  if (destination_id !== null && destination?.workspace_id !== workspace_id)
    throw invalid(
      'destination_id: expected a destination that exists in its workspace',
      'destination_id',
    )
}

/** Shows an alert with its secrets masked, and with a warning where nothing can be told. */
function showAlert(world: AlertWorld, alert: Alert) {
  const { sealed: _, ...shown } = alert
  const to = openReceiver(world, alert)
  return { ...shown, to: to && maskReceiver(to), ...warnOfScope(world, alert, to !== null) }
}

function warnOfScope({ memory }: AlertWorld, alert: Alert, isReadable: boolean) {
  const { key_hash, destination_id } = alert
  if (!isReadable)
    return { warning: 'Nothing is told: its receiver was sealed with another secret' }
  if (key_hash !== null && !memory.keys.has(key_hash))
    return { warning: 'Nothing is told: its API key was deleted' }
  if (destination_id !== null && !memory.destinations.has(destination_id))
    return { warning: 'Nothing is told: its destination was deleted' }
  return {}
}

/** Makes the audit entry of a change of an alert. Of secrets it has fingerprints only. */
const auditAlert = defineAudit<Alert, AlertWorld>('alerts', {
  identify: identifyById,
  show(alert, world) {
    const { sealed: _, ...shown } = alert
    const to = openReceiver(world, alert)
    const { fingerprint } = world.secrets
    return { ...shown, to: to && replaceSecret(to, { secret: fingerprint, url: fingerprint }) }
  },
})

/** The fewest characters of a secret. */
const SHORTEST_SECRET = 16

/**
 * Checks who is told, as far as it can be known without a lookup. Throws 400 naming the field for a
 * URL that may not be called, and for a secret that can be guessed.
 */
function checkReceiver(world: Pick<AlertWorld, 'config'>, to: AlertReceiver): void {
  if (to.type === 'mail') {
    if (!world.config.mail)
      throw invalid(
        'to.type: expected no mail, as the config has no server for it (mail.host)',
        'to.type',
      )
    return
  }
  parseUntrustedUrl(world, to.url, 'to.url')
  refusePrivateHost(world, to.url, 'to.url')
  if ('secret' in to && to.secret.length < SHORTEST_SECRET)
    throw invalid(`to.secret: expected at least ${SHORTEST_SECRET} characters`, 'to.secret')
}

/** Replaces the secret of a receiver: of Slack it is the URL itself, as what its path has. */
function replaceSecret(
  to: AlertReceiver,
  replace: { secret(text: string): string; url(url: string): string },
): AlertReceiver {
  if (to.type === 'slack') return { ...to, url: replace.url(to.url) }
  return to.type === 'webhook' ? { ...to, secret: replace.secret(to.secret) } : to
}

/** Replaces secrets by their masks. The mask of a URL is a URL of the same host. */
const maskReceiver = (to: AlertReceiver): AlertReceiver =>
  replaceSecret(to, { secret: maskCredential, url: maskUrl })

const maskUrl = (url: string): string =>
  `${new URL(url).origin}/.../${url.slice(-4).replaceAll('/', '')}`

/**
 * Puts the secret in the place of its mask, which was read from an answer and sent back. Throws 400
 * where it would go to another host than the one that it was given for.
 */
function keepSecret(before: AlertReceiver | null, to: AlertReceiver): AlertReceiver {
  if (before?.type === 'slack' && to.type === 'slack')
    return to.url === maskUrl(before.url) ? before : to
  if (before?.type !== 'webhook' || to.type !== 'webhook') return to
  if (to.secret !== maskCredential(before.secret)) return to
  if (new URL(before.url).origin !== new URL(to.url).origin)
    throw invalid(
      'to.secret: expected again, since requests go to another host from now on',
      'to.secret',
    )
  return { ...to, secret: before.secret }
}

/** Seals a receiver for its alert. */
const sealReceiver = (world: AlertWorld, id: string, to: AlertReceiver): string =>
  world.secrets
    .destinationSeal()
    .seal(JSON.stringify(to), id, Buffer.from(world.ids.secret(), 'hex').subarray(-12))

/** Opens the receiver of an alert; null where it was sealed with another secret. */
export function openReceiver(
  world: Pick<AlertWorld, 'secrets'>,
  { id, sealed }: Pick<Alert, 'id' | 'sealed'>,
): AlertReceiver | null {
  try {
    const text = world.secrets.destinationSeal().open(sealed, id)
    return (parseObject(text ?? '') as AlertReceiver | undefined) ?? null
  } catch {
    return null
  }
}
