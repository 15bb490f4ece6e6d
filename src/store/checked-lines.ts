import { renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { appendDataFile, readDataFile, syncPath } from './data-files.ts'

/** Computes what proves that a line is as it was written. */
type Check = (json: string) => string

/** Renders a line of JSON after its check: a changed or cut line is found out. */
export const renderCheckedLine = (json: string, check: Check): string => `${check(json)} ${json}\n`

/** Returns the JSON of a line; null unless the line is as it was written. */
export function parseCheckedLine(line: string, check: Check): string | null {
  const json = line.slice(line.indexOf(' ') + 1)
  return line === `${check(json)} ${json}` ? json : null
}

/** Computes a checksum, which finds accidents and no forgery. */
export const computeChecksum: Check = json => Bun.hash.crc32(json).toString(16).padStart(8, '0')

/**
 * Splits a log into its lines. The last one may have been cut by the end of its process, and is left
 * out; one that goes on after its JSON was not cut: its end was changed.
 */
export function splitLines(log: string): string[] {
  const lines = log.split('\n')
  const last = lines.pop() ?? ''
  return hasMoreThanJson(last) ? [...lines, last] : lines
}

/** Whether something follows the first JSON object of a line. */
function hasMoreThanJson(line: string): boolean {
  let depth = 0
  let isText = false
  for (let i = line.indexOf('{'); i >= 0 && i < line.length; i++) {
    const character = line[i]
    if (isText && character === '\\') i++
    else if (character === '"') isText = !isText
    else if (isText) continue
    else if (character === '{') depth += 1
    else if (character === '}' && --depth === 0) return i < line.length - 1
  }
  return false
}

/** Logs that were found damaged, and are kept until an operator has accepted that. */
export interface DamagedLogs {
  /** Says of each what was found. */
  list(): string[]
  /** Goes on without them: they stay, as `*.accepted`. */
  accept(): void
}

const GARBLED = '.garbled'

/** Keeps a copy of what was found damaged in a log beside it, behind what was kept before. */
export const appendEvidence = (path: string, damaged: string | Uint8Array): void =>
  appendDataFile(path + GARBLED, damaged)

/** Opens the damaged logs that a data directory keeps. */
export function openDamagedLogs(data: string): DamagedLogs {
  const listKept = () =>
    ['log', 'log.before', 'holds.log', 'records.log'].filter(
      name => readDataFile(join(data, name + GARBLED)) !== null,
    )
  return {
    list: () =>
      listKept().map(name => `${name} was damaged: it is kept as ${name}${GARBLED} (--accept)`),
    accept() {
      for (const name of listKept()) {
        const path = join(data, name)
        const accepted = readDataFile(`${path}.accepted`)
        if (accepted === null) renameSync(path + GARBLED, `${path}.accepted`)
        else {
          appendDataFile(`${path}.accepted`, readDataFile(path + GARBLED) ?? '')
          rmSync(path + GARBLED)
        }
      }
      syncPath(data)
    },
  }
}
