import { invalid } from '../../base/errors.ts'
import { openMacOfKey } from '../../base/mac.ts'
import type { Run } from '../../engine/run.ts'
import type { VideoCall } from '../../language/video.ts'
import { checkUntrustedUrl, isNamedPrivate } from '../../network/untrusted-url.ts'
import type { VideoJob } from '../../resources/videos.ts'
import type { ExtensionWorld } from '../world.ts'
import { showVideo } from './view.ts'

/** What callbacks need: the secret that signs them, and where users find the gateway. */
export interface CallbackWorld extends ExtensionWorld {
  instance: { siteUrl: string }
}

const FIELD = 'callback_url'

/**
 * Checks where the end of a job is to be told, before anything is spent. Returns undefined for a
 * call without a URL. Throws 400 for what is no https URL of a public host; hosts that the operator
 * lists in `security.allow_private_urls` may be private, and have no certificate.
 */
function checkCallbackUrl(
  world: ExtensionWorld,
  { callback_url: url }: Pick<VideoCall, 'callback_url'>,
): Promise<void> | undefined {
  if (url === undefined) return undefined
  const parsed = URL.parse(url)
  if (parsed && parsed.protocol !== 'https:' && !isNamedPrivate(world, parsed))
    throw invalid(`${FIELD}: expected an https URL`, FIELD)
  return checkUntrustedUrl(world, url, FIELD).then(() => undefined)
}

/** Checks where the end of a call's job is to be told. Throws as `checkCallbackUrl` does. */
export const checkCallback = (world: ExtensionWorld, { call }: Run): Promise<void> | undefined =>
  call.kind === 'video' ? checkCallbackUrl(world, call) : undefined

/** Seals the URL of a job for the store: it may hold a secret of its receiver. */
export const sealCallbackUrl = (world: ExtensionWorld, url: string, id: string): string =>
  world.secrets.destinationSeal().seal(url, id, crypto.getRandomValues(new Uint8Array(12)))

/** Opens the URL of a job; undefined where it was sealed with another secret. */
export const openCallbackUrl = (
  world: ExtensionWorld,
  { callback_url, id }: Pick<VideoJob, 'callback_url' | 'id'>,
): string | undefined =>
  callback_url === null ? undefined : world.secrets.destinationSeal().open(callback_url, id)

const SECRET_BYTES = 32

/**
 * Returns the secret that signs what a workspace is told. It is derived from the instance's secret,
 * so that it is never empty and no two workspaces share one.
 */
export const deriveCallbackSecret = ({ secrets }: CallbackSecrets, workspace_id: string): string =>
  `whsec_${Buffer.from(secrets.derive(`callbacks ${workspace_id}`, SECRET_BYTES)).toString('base64url')}`

interface CallbackSecrets {
  secrets: Pick<ExtensionWorld['secrets'], 'derive'>
}

/**
 * Builds what tells the end of a job: always the same body, signed at the moment of sending
 * (wire reference A: `t` in seconds, and HMAC-SHA256 of "t,body").
 */
export function buildCallback(world: CallbackWorld, job: VideoJob) {
  const { model, ended_at, status } = job
  const body = JSON.stringify({
    type: `video.generation.${status}`,
    created_at: ended_at,
    data: { ...showVideo(job, world.instance.siteUrl), model },
  })
  const seconds = Math.floor(world.clock.now().getTime() / 1000)
  const sign = openMacOfKey(deriveCallbackSecret(world, job.workspace_id))
  return {
    body,
    headers: {
      'content-type': 'application/json',
      'x-openrouter-idempotency-key': `${job.id}-${status}`,
      'x-openrouter-signature': `t=${seconds},v1=${sign(`${seconds},${body}`)}`,
    },
  }
}
