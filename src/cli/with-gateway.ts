import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import { type CommonOptions, configOf, partsOf } from './options.ts'

/** What a command does with a gateway, as its operator. */
type Use<Result> = (gateway: Gateway, actor: Actor) => Result | Promise<Result>

/** Runs something with the gateway of this data directory, and closes it whatever happens. */
export async function withGateway<Result>(options: CommonOptions, use: Use<Result>): Promise<Result> {
  const { openGateway } = await import('../core/gateway.ts')
  const { operator } = await import('../core/identity/actor.ts')
  const gateway = await openGateway(partsOf(options, await configOf(options)))
  try {
    return await use(gateway, operator(gateway))
  } finally {
    await gateway.close()
  }
}
