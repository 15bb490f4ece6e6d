/**
 * Loaded before the tests of official clients: writes down each method of OpenRouter's client that
 * was answered, in the file that `GATEWAY_METHODS` names.
 */
import { appendFileSync } from 'node:fs'
import { listMethods } from './methods.ts'

const path = process.env.GATEWAY_METHODS
if (path !== undefined) for (const method of listMethods()) watch(method, path)

function watch({ name, owner, key }: ReturnType<typeof listMethods>[number], file: string): void {
  const run = owner[key] as (...args: unknown[]) => unknown
  owner[key] = function record(this: unknown, ...args: unknown[]) {
    const result = run.apply(this, args)
    if (result instanceof Promise)
      result.then(
        () => appendFileSync(file, `${name}\n`),
        () => undefined,
      )
    return result
  }
}
