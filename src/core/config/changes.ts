import type { Config } from '../config.ts'

/** A config as far as a running process can take it, and the settings that it takes at its start only, where they differ. */
export interface Applicable {
  config: Config
  needsRestart: string[]
}

/** What of `wanted` a process can take that runs with another: all but where it listens and is found, and how its store is opened. */
export function applicable({ server, storage }: Config, wanted: Config): Applicable {
  const config = { ...wanted, server, storage }
  return { config, needsRestart: changedSettings(config, wanted) }
}

/** The settings in which two configs differ, by their names: `limits.max_tokens`, `providers.openai`, `models`. Never what they say. */
export const changedSettings = (before: Config, after: Config): string[] =>
  changedIn(before, after).flatMap(section => {
    const [a, b] = [membersOf(before, section), membersOf(after, section)]
    return a && b ? changedIn(a, b).map(name => `${section}.${name}`) : [section]
  })

const changedIn = (a: object, b: object): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    name => !Bun.deepEquals(memberOf(a, name), memberOf(b, name)),
  )

function membersOf(config: Config, section: string): object | undefined {
  const value = memberOf(config, section)
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined
}

// A provider may be called like something that every object has.
const memberOf = (object: object, name: string): unknown =>
  Object.getOwnPropertyDescriptor(object, name)?.value
