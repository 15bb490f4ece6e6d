import type { Key } from 'ink'

/** Every key, what it does, and where: the help lists them, and views ask for them by name. */
export const KEYS = {
  up: { keys: ['k', '↑'], means: 'up', where: 'lists' },
  down: { keys: ['j', '↓'], means: 'down', where: 'lists' },
  pageUp: { keys: ['ctrl-u', 'page up'], means: 'a page up', where: 'lists' },
  pageDown: { keys: ['ctrl-d', 'page down'], means: 'a page down', where: 'lists' },
  top: { keys: ['g', 'home'], means: 'to the first', where: 'lists' },
  bottom: { keys: ['G', 'end'], means: 'to the last', where: 'lists' },
  open: { keys: ['enter', 'l', '→'], means: 'open', where: 'lists' },
  back: { keys: ['esc', 'h', '←'], means: 'back; clear the filter', where: 'everywhere' },
  filter: { keys: ['/'], means: 'filter by a text', where: 'lists' },
  sort: { keys: ['s'], means: 'sort by the next column', where: 'lists' },
  reverse: { keys: ['r'], means: 'sort the other way round', where: 'lists' },
  pause: { keys: ['p', 'space'], means: 'pause, go on', where: 'calls' },
  rest: { keys: ['z'], means: 'let an endpoint rest', where: 'endpoints' },
  wake: { keys: ['w'], means: 'wake an endpoint', where: 'endpoints' },
  credit: { keys: ['a'], means: 'add credits', where: 'money' },
  create: { keys: ['n'], means: 'new', where: 'keys, more' },
  rename: { keys: ['e'], means: 'rename', where: 'keys, more' },
  disable: { keys: ['d'], means: 'disable or enable', where: 'keys, more' },
  limit: { keys: ['m'], means: 'change the limit', where: 'keys, more' },
  remove: { keys: ['x'], means: 'delete', where: 'keys, more' },
  assign: { keys: ['t'], means: 'assign', where: 'keys, more' },
  unassign: { keys: ['u'], means: 'take away what is assigned', where: 'keys, more' },
  copy: { keys: ['y'], means: 'copy the new key', where: 'keys' },
  next: { keys: ['tab'], means: 'next view', where: 'everywhere' },
  previous: { keys: ['shift-tab'], means: 'view before', where: 'everywhere' },
  view: { keys: ['1-6'], means: 'a view by its number', where: 'everywhere' },
  help: { keys: ['?'], means: 'this help', where: 'everywhere' },
  quit: { keys: ['q', 'ctrl-c'], means: 'leave', where: 'everywhere' },
} as const
export type Action = keyof typeof KEYS

const BY_LETTER: Record<string, Action> = Object.fromEntries(
  Object.entries(KEYS).flatMap(([action, { keys }]) =>
    keys.filter(key => key.length === 1).map(key => [key, action]),
  ),
) as Record<string, Action>

/** Finds what a key does. Undefined for one that does nothing. */
export function findAction(input: string, key: Key): Action | undefined {
  if (key.upArrow) return 'up'
  if (key.downArrow) return 'down'
  if (key.leftArrow || key.escape) return 'back'
  if (key.rightArrow || key.return) return 'open'
  if (key.pageUp || (key.ctrl && input === 'u')) return 'pageUp'
  if (key.pageDown || (key.ctrl && input === 'd')) return 'pageDown'
  if (key.home) return 'top'
  if (key.end) return 'bottom'
  if (key.tab) return key.shift ? 'previous' : 'next'
  if (key.ctrl) return input === 'c' ? 'quit' : undefined
  if (input === ' ') return 'pause'
  // Of several keys that have come at once.
  if (input === '\r' || input === '\n') return 'open'
  return /^[1-6]$/.test(input) ? 'view' : BY_LETTER[input]
}
