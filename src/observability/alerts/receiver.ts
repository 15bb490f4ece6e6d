import { maskCredential } from '../../base/credential.ts'
import { invalid } from '../../base/errors.ts'
import { parseObject } from '../../base/json.ts'
import { parseUntrustedUrl, refusePrivateHost } from '../../network/untrusted-url.ts'
import type { AlertReceiver } from './schema.ts'
import type { Alert } from './store.ts'
import type { AlertWorld } from './world.ts'

/** The fewest characters of a secret. */
const SHORTEST_SECRET = 16

/**
 * Checks who is told, as far as it can be known without a lookup. Throws 400 naming the field for a
 * URL that may not be called, and for a secret that can be guessed.
 */
export function checkReceiver(world: Pick<AlertWorld, 'config'>, to: AlertReceiver): void {
  parseUntrustedUrl(world, to.url, 'to.url')
  refusePrivateHost(world, to.url, 'to.url')
  if ('secret' in to && to.secret.length < SHORTEST_SECRET)
    throw invalid(`to.secret: expected at least ${SHORTEST_SECRET} characters`, 'to.secret')
}

/** Replaces the secret of a receiver: of Slack it is the URL itself, as what its path has. */
export function replaceSecret(
  to: AlertReceiver,
  replace: { secret(text: string): string; url(url: string): string },
): AlertReceiver {
  return to.type === 'slack'
    ? { ...to, url: replace.url(to.url) }
    : { ...to, secret: replace.secret(to.secret) }
}

/** Replaces secrets by their masks. The mask of a URL is a URL of the same host. */
export const maskReceiver = (to: AlertReceiver): AlertReceiver =>
  replaceSecret(to, {
    secret: maskCredential,
    url: url => `${new URL(url).origin}/.../${url.slice(-4).replaceAll('/', '')}`,
  })

/**
 * Puts the secret in the place of its mask, which was read from an answer and sent back. Throws 400
 * where it would go to another host than the one that it was given for.
 */
export function keepSecret(before: AlertReceiver | null, to: AlertReceiver): AlertReceiver {
  if (before === null || before.type !== to.type) return to
  const mask = maskReceiver(before)
  if (before.type === 'slack') return to.url === mask.url ? before : to
  if (!('secret' in to && 'secret' in mask) || to.secret !== mask.secret) return to
  if (new URL(before.url).origin !== new URL(to.url).origin)
    throw invalid(
      'to.secret: expected again, since requests go to another host from now on',
      'to.secret',
    )
  return { ...to, secret: before.secret }
}

/** Seals a receiver for its alert. */
export const sealReceiver = (world: AlertWorld, id: string, to: AlertReceiver): string =>
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
