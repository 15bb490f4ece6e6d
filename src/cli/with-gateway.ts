import { existsSync } from 'node:fs'
import { notFound } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import { type CommonOptions, loadConfig, toGatewayParts } from './options.ts'

/** What a command does with a gateway as its operator. */
type GatewayTask<Result> = (gateway: Gateway, actor: Actor) => Result | Promise<Result>

/**
 * Runs a task with the gateway of this data directory, and closes the gateway in any case. Throws
 * 404 where a named directory does not exist: the result for a misspelt one would be meaningless,
 * and what it stores would be lost.
 */
export async function withGateway<Result>(
  options: CommonOptions,
  task: GatewayTask<Result>,
): Promise<Result> {
  const directory = options.data ?? process.env.GATEWAY_DATA
  if (directory !== undefined && !existsSync(directory))
    throw notFound(`There is no data directory ${directory}: gateway init makes one`)
  return withNewGateway(options, task)
}

/** Runs a task like `withGateway`, and creates the directory if there is none. */
export async function withNewGateway<Result>(
  options: CommonOptions,
  task: GatewayTask<Result>,
): Promise<Result> {
  const { openGateway } = await import('../core/gateway.ts')
  const { getOperator } = await import('../core/identity/actor.ts')
  const gateway = await openGateway(toGatewayParts(options, await loadConfig(options)))
  try {
    return await task(gateway, getOperator(gateway))
  } finally {
    await gateway.close()
  }
}
