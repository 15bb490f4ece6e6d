import type { Gateway } from '../app/gateway.ts'
import { hashSecret, maskSecret } from '../base/credential.ts'
import { GatewayError } from '../base/errors.ts'
import type { Actor } from '../resources/actor.ts'
import { readPath } from './headers.ts'

/** What is known of a refused request beside its headers. */
interface RefusedCall {
  thrown: unknown
  /** The request id that the caller sees. */
  id: string
  actor: Actor | null
  model: string | null
}

/**
 * Notes a request that was refused before any provider was asked, also for the sake of those that
 * run. Failures of ours, and calls that are on record as generations, are none.
 */
export function noteRefusal(gateway: Gateway, request: Request, refused: RefusedCall): void {
  const { id, actor, model } = refused
  const error = toRefusal(refused.thrown)
  if (!error || error.isRecorded || (error.status >= 500 && !isOverload(error))) return
  const secret = readSecret(request.headers)
  const known =
    secret === null || actor?.key_hash
      ? undefined
      : gateway.memory.keys.findBySecret(hashSecret(secret), gateway.clock.now())
  gateway.refusals.note(
    {
      id,
      path: readPath(request),
      key: secret && maskSecret(secret),
      key_hash: actor?.key_hash ?? known?.hash ?? null,
      workspace_id: actor?.workspace_id ?? known?.workspace_id ?? null,
      model,
    },
    error,
  )
}

// The gateway protects itself: that is no failure of it.
const isOverload = ({ metadata }: GatewayError) => metadata.overload !== undefined

function toRefusal(thrown: unknown): GatewayError | undefined {
  if (thrown instanceof GatewayError) return thrown
  const isMissing = typeof thrown === 'object' && thrown !== null && 'code' in thrown
  return isMissing && thrown.code === 'NOT_FOUND'
    ? new GatewayError('not_found', 'Resource not found')
    : undefined
}

/** The mask of a shorter secret would be the secret. */
const SHORTEST = 20

function readSecret(headers: Headers): string | null {
  const secret =
    /^bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1] ?? headers.get('x-api-key')
  return secret && secret.length >= SHORTEST ? secret : null
}
