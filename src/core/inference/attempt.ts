import type { Gateway } from '../gateway.ts'
import { Line } from './attempt/line.ts'
import { summaryOf } from './attempt/summary.ts'
import { type Begun, tried } from './attempt/try.ts'
import type { Kind } from './call.ts'
import type { Running } from './running.ts'

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, silence, a refused connection
 * or a broken stream before that moves on to the next endpoint; what one provider of a model refuses as invalid the others
 * would refuse too, so that moves on to the next model. A second try goes to none that rests, and only while few calls are on
 * theirs. Throws the last failure, with the attempts in `metadata.previous_errors`.
 */
export async function attemptInOrder<K extends Kind>(gateway: Gateway, running: Running<K>): Promise<Begun<K>> {
  const line = new Line<K>(gateway, running)
  for (let next = line.next(); next; next = line.next()) {
    try {
      return await tried(gateway, running, next, line.echoes)
    } catch (thrown) {
      line.failed(next, thrown)
    } finally {
      line.over(next)
    }
  }
  throw summaryOf(running.call, line.failures)
}
