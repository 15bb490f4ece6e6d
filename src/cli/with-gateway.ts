import type { Gateway } from '../core/gateway.ts'
import { type CommonOptions, partsOf } from './options.ts'

/** Runs something with the gateway of this data directory, and closes it whatever happens. */
export async function withGateway<Result>(options: CommonOptions, use: (gateway: Gateway) => Result | Promise<Result>): Promise<Result> {
  const { openGateway } = await import('../core/gateway.ts')
  const gateway = await openGateway(await partsOf(options))
  try {
    return await use(gateway)
  } finally {
    await gateway.close()
  }
}
