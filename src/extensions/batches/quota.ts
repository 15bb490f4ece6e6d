import { GatewayError } from '../../base/errors.ts'
import { MOST_UNFINISHED } from './store.ts'

/** Throws 429 where a workspace has as many unfinished batches as it may. */
export function checkUnfinished(count: number): void {
  if (count >= MOST_UNFINISHED)
    throw new GatewayError(
      'rate_limit_exceeded',
      `A workspace may have ${MOST_UNFINISHED} unfinished batches`,
      { retryAfter: 60 },
    )
}
