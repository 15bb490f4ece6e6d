import fc from 'fast-check'
import type { Frame } from '../../src/translation/protocols/protocol.ts'

/** JSON that no provider should send, and that some do or will. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom<unknown>(null, true, false, '', 'x', [], {}, [[]], [null], [{}], {
      type: 'x',
    }),
  },
  {
    weight: 4,
    arbitrary: fc.constantFrom<unknown>(0, 1, -1, 1.5, 127, 128, 1e9, 2 ** 53, 1e21, 1e308, -1e308),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      '\u0000',
      '\ud800',
      '{',
      '[DONE]',
    ),
  },
  { weight: 1, arbitrary: fc.constant('y'.repeat(20_000)) },
  { weight: 1, arbitrary: fc.constantFrom(1, 50, 2_000).map(nestValue) },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom(
        '{"__proto__":{"type":"text","index":0}}',
        '{"constructor":{"prototype":1}}',
        '{"toString":1,"valueOf":1}',
      )
      .map(text => JSON.parse(text)),
  },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
)

function nestValue(depth: number): unknown {
  let value: unknown = 1
  for (let i = 0; i < depth; i++) value = i % 2 ? [value] : { a: value }
  return value
}

/** A change: the index of a member within the whole value, and what is done to it. */
interface Change {
  at: number
  how: 'replace' | 'remove' | 'repeat' | 'wrap' | 'retype' | 'rename' | 'borrow'
  value: unknown
}

const change: fc.Arbitrary<Change> = fc.record({
  at: fc.nat(),
  how: fc.constantFrom(
    'replace',
    'replace',
    'remove',
    'repeat',
    'wrap',
    'retype',
    'rename',
    'borrow',
  ),
  value: hostileValue,
})

/** Changes that can be applied to any JSON. */
export const changes: fc.Arbitrary<Change[]> = fc.array(change, { minLength: 1, maxLength: 4 })

/** More than any list of an answer may contain. */
const MANY = 200
/** A value with more members or characters is not repeated further, to limit its growth. */
const LARGEST = 2_000

type Holder = Record<string, unknown> | unknown[]
interface Member {
  holder: Holder
  key: string
}

/** Applies changes to a copy of the value. */
export function applyChanges(given: unknown, made: Change[]): unknown {
  const root = { it: structuredClone(given) }
  for (const one of made) {
    const members = listMembers(root)
    if (members.length > LARGEST) break
    const member = members[one.at % members.length]
    if (member) applyChange(one, member, members)
  }
  return root.it ?? null
}

// Members deeper than any provider's are not changed: they are hostile already.
function listMembers(holder: Holder, depth = 0): Member[] {
  if (depth > 20) return []
  return Object.entries(holder).flatMap(([key, value]) => [
    { holder, key },
    ...(typeof value === 'object' && value !== null ? listMembers(value as Holder, depth + 1) : []),
  ])
}

function applyChange({ at, how, value }: Change, member: Member, members: Member[]): void {
  const before = readMember(member)
  switch (how) {
    case 'remove':
      removeMember(member)
      break
    case 'rename':
      removeMember(member)
      putMember({ ...member, key: typeof value === 'string' ? value.slice(0, 20) : 'type' }, before)
      break
    case 'replace':
      // Values are shared by cases: a later change within one would change it for all of them.
      putMember(member, structuredClone(value))
      break
    case 'repeat':
      putMember(member, repeatValue(before))
      break
    case 'wrap':
      putMember(member, at % 2 ? [before] : { [member.key]: before })
      break
    case 'retype':
      putMember(member, changeType(before))
      break
    case 'borrow':
      putMember(
        member,
        structuredClone(readMember(members[(at * 7 + 3) % members.length] ?? member)),
      )
      break
  }
}

const readMember = ({ holder, key }: Member): unknown =>
  Array.isArray(holder) ? holder[Number(key)] : holder[key]

function removeMember({ holder, key }: Member): void {
  if (Array.isArray(holder)) holder.splice(Number(key), 1)
  else delete holder[key]
}

function repeatValue(value: unknown): unknown {
  const isSmall = (JSON.stringify(value) ?? '').length < LARGEST
  return Array.isArray(value) && isSmall ? Array(MANY).fill(value).flat() : [value]
}

// Works for the name `__proto__` too, which an assignment would not make a member.
function putMember({ holder, key }: Member, value: unknown): void {
  if (Array.isArray(holder)) holder[Math.min(Number(key) || 0, holder.length)] = value
  else
    Object.defineProperty(holder, key, {
      value,
      enumerable: true,
      writable: true,
      configurable: true,
    })
}

function changeType(value: unknown): unknown {
  if (typeof value === 'string') return value.length
  if (typeof value === 'number') return value === 0 ? '0' : -value
  if (Array.isArray(value)) return { ...value }
  return typeof value === 'object' && value !== null ? Object.values(value) : String(value)
}

/** A change of one frame of a stream. */
interface FrameChange {
  at: number
  how: 'change' | 'garble' | 'repeat' | 'drop' | 'move' | 'rename'
  changes: Change[]
  text: string
}

const GARBAGE = [
  '',
  ' ',
  'x',
  '{',
  '[1',
  '"s"',
  '123',
  'null',
  '[]',
  '{}',
  '[{}]',
  '[DONE]',
  '{"__proto__":{}}',
  '{"type":"error"}',
]

/** Changes that can be applied to the frames of any stream. */
export const frameChanges: fc.Arbitrary<FrameChange[]> = fc.array(
  fc.record({
    at: fc.nat(),
    how: fc.constantFrom(
      'change',
      'change',
      'change',
      'garble',
      'repeat',
      'drop',
      'move',
      'rename',
    ),
    changes,
    text: fc.constantFrom(...GARBAGE, '__proto__', 'constructor'),
  }),
  { minLength: 1, maxLength: 6 },
)

/** Applies changes to a copy of the frames. */
export function applyFrameChanges(given: Frame[], made: FrameChange[]): Frame[] {
  const frames = [...given]
  for (const one of made) {
    const at = one.at % Math.max(frames.length, 1)
    const frame = frames[at]
    if (frame) frames.splice(at, 1, ...changeFrame(frame, one))
    if (frame && one.how === 'move') frames.splice((one.at * 7 + 3) % (frames.length + 1), 0, frame)
  }
  return frames
}

function changeFrame(frame: Frame, { how, changes, text }: FrameChange): Frame[] {
  switch (how) {
    case 'change':
      return [{ ...frame, data: changeData(frame.data, changes) }]
    case 'garble':
      return [{ ...frame, data: text }]
    case 'rename':
      return [{ ...frame, event: text }]
    case 'repeat':
      return [frame, frame, frame]
    case 'drop':
    case 'move':
      return []
  }
}

function changeData(data: string, made: Change[]): string {
  try {
    return JSON.stringify(applyChanges(JSON.parse(data), made)) ?? 'null'
  } catch {
    return data
  }
}
