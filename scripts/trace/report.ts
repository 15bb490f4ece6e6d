import { getRoom } from '../house/rooms.ts'
import { type Entry, type Planning, planningMoved } from './tracer.ts'

/** The trace of a call. */
export interface Trace {
  name: string
  /** Whether the gateway makes a plan for such a call. */
  plans: boolean
  entries: Entry[]
}

/** The files and functions that were run through. */
export interface Count {
  files: number
  /** Different functions, and how often one was entered. */
  functions: number
  entries: number
  /** How often a function was entered in another file than that of the function before it. */
  changes: number
  /** The names of the files, by room. */
  rooms: Record<string, string[]>
}

/** The report of a call. */
export interface Report {
  call: string
  whole: Count
  planning: Count
  /** The file and the function of every change of file, one after the other. */
  steps: string[]
}

/**
 * Counts the files that the call ran through. Throws if a call with a plan ran none of the planning
 * functions.
 */
export function createReport(
  { name, plans, entries }: Trace,
  { file, functions }: Planning,
): Report {
  const planning = entries.filter(entry => entry.planning)
  const idle = functions.filter(one => !planning.some(it => it.file === file && it.name === one))
  if (plans && idle.length > 0)
    throw planningMoved(`The call did not run ${idle.join(', ')} of ${file}`)
  const steps = findFileChanges(entries).map(entry => `${entry.file} ${entry.name}`)
  return { call: name, whole: countEntries(entries), planning: countEntries(planning), steps }
}

/** Counts what was entered. */
export function countEntries(entries: Entry[]): Count {
  const files = [...new Set(entries.map(({ file }) => file))].sort()
  const rooms = Object.groupBy(files, file => `src/${getRoom(file)}`) as Record<string, string[]>
  // The first entry is no change: there was no file before it.
  const changes = Math.max(0, findFileChanges(entries).length - 1)
  const functions = new Set(entries.map(({ file, name }) => `${file} ${name}`)).size
  return { files: files.length, functions, entries: entries.length, changes, rooms }
}

function findFileChanges(entries: Entry[]): Entry[] {
  return entries.filter(({ file }, i) => file !== entries[i - 1]?.file)
}

/** Renders the report for people, without the steps. */
export function renderReport({ call, whole, planning }: Report): string {
  const parts = [renderSection(call, whole)]
  if (planning.files > 0) parts.push(renderSection('Of these while it was planned', planning))
  return parts.join('\n')
}

function renderSection(title: string, count: Count): string {
  const { files, functions, entries, changes, rooms } = count
  const names = Object.entries(rooms).sort(([a], [b]) => a.localeCompare(b))
  const head =
    `${title}: ${files} files of ${names.length} rooms, ${changes} changes of file, ` +
    `${functions} functions, ${entries} entries`
  return `${[head, ...names.flatMap(([room, within]) => renderRoom(room, within))].join('\n')}\n`
}

function renderRoom(room: string, files: string[]): string[] {
  const names = files.map(file => file.slice(room.length + 1, -'.ts'.length))
  return [`  ${room} (${files.length})`, ...wrapWords(names)]
}

const WIDTH = 100
const INDENT = '    '

function wrapWords(words: string[]): string[] {
  const lines: string[] = []
  for (const word of words) {
    const line = `${lines.at(-1)}, ${word}`
    if (lines.length > 0 && line.length < WIDTH) lines[lines.length - 1] = line
    else lines.push(INDENT + word)
  }
  return lines
}
