import { existsSync } from 'node:fs'
import { notFound } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import { type CommonOptions, configOf, partsOf } from './options.ts'

/** What a command does with a gateway as its operator. */
type Use<Result> = (gateway: Gateway, actor: Actor) => Result | Promise<Result>

/**
 * Runs a task with the gateway of this data directory, and closes the gateway in any case. Throws
 * 404 where a named directory does not exist: the result for a misspelt one would be meaningless,
 * and what it stores would be lost.
 */
export async function withGateway<Result>(
  options: CommonOptions,
  use: Use<Result>,
): Promise<Result> {
  const named = options.data ?? process.env.GATEWAY_DATA
  if (named !== undefined && !existsSync(named))
    throw notFound(`There is no data directory ${named}: gateway init makes one`)
  return withNewGateway(options, use)
}

/** Runs a task like `withGateway`, and creates the directory if there is none. */
export async function withNewGateway<Result>(
  options: CommonOptions,
  use: Use<Result>,
): Promise<Result> {
  const { openGateway } = await import('../core/gateway.ts')
  const { operator } = await import('../core/identity/actor.ts')
  const gateway = await openGateway(partsOf(options, await configOf(options)))
  try {
    return await use(gateway, operator(gateway))
  } finally {
    await gateway.close()
  }
}
