import { resolve } from 'node:path'

/** Gives the tests the previous major of each client in place of the latest. */
export const PREVIOUS = resolve(import.meta.dir, 'previous/tsconfig.json')

/**
 * The tests that the previous majors fail, and what these clients do differently: with any server.
 * OpenRouter's client has none: what came before its first major lacks most of today's API.
 */
const DIFFERENCES: [tests: RegExp, difference: string][] = [
  [
    /^text > is generated|^tools > are called and answered while|^reasoning > |^failures > (a stream that|another)/,
    'ai 6 calls `instructions`, `stream` and the messages of a result by other names',
  ],
  [/^the tool runner completes the loop/, 'openai 6 drops the empty text that begins a stream'],
  [
    /^openai-responses recordings through /,
    '@ai-sdk/openai 3 fails at these recordings of OpenAI itself, or reads other fields of them',
  ],
  [
    /^the AI SDK draws with the model of OpenRouter|^every exchange matches the public schema/,
    '@openrouter/ai-sdk-provider 2 draws over the chat API',
  ],
]

/**
 * Reports what the previous majors could do, by the log of their tests. Returns whether they failed
 * at nothing but what they do differently.
 */
export function reportPrevious(log: string): boolean {
  const failed = [...new Set(log.match(/(?<=^\(fail\) ).*(?= \[)/gm) ?? [])]
  const unknown = failed.filter(name => !DIFFERENCES.some(([tests]) => tests.test(name)))
  const passed = Number(/^ *(\d+) pass$/m.exec(log)?.[1] ?? 0)
  const stale = DIFFERENCES.filter(([tests]) => !failed.some(name => tests.test(name)))
  const isLoaded = passed > 0 && !/^ *\d+ errors?$/m.test(log)
  process.stdout.write(`Tests of the previous majors: ${passed} passed\n`)
  for (const [tests, difference] of DIFFERENCES) {
    const count = failed.filter(name => tests.test(name)).length
    process.stdout.write(`  ${count} do not hold there: ${difference}\n`)
  }
  for (const name of unknown) process.stdout.write(`  failed: ${name}\n`)
  for (const [, difference] of stale) process.stdout.write(`  no longer so: ${difference}\n`)
  return isLoaded && unknown.length === 0 && stale.length === 0
}
