import { expect, test } from 'bun:test'
import { ClientSessions, MessageStream } from '../../../src/extensions/mcp-gateway/sessions.ts'
import type { Actor } from '../../../src/resources/actor.ts'
import { createSeededIntegers, LONG, SEED } from '../../support/random.ts'

const BOUNDS = { key: 3, workspace: 6, all: 12 }
const buildActor = (key: number, workspace: number): Actor => ({
  ...({ kind: 'inference', member_id: null, name: 'k' } as unknown as Actor),
  key_hash: `key-${key}`,
  workspace_id: `workspace-${workspace}`,
})
const ACTORS = Array.from({ length: 12 }, (_, i) => buildActor(i, i % 4))

test('whatever is opened and used, a key loses only its own, those in use last', () => {
  const pick = createSeededIntegers(SEED)
  for (let round = 0; round < (LONG ? 2_000 : 100); round++) {
    const sessions = new ClientSessions(BOUNDS)
    const open = new Map<string, { actor: Actor; stream: boolean }>()
    for (let now = 0; now < 60; now++) {
      const actor = ACTORS[pick(ACTORS.length)] as Actor
      const known = [...open].filter(([id]) => sessions.find(id, owner(id), null, now))
      expect(known).toHaveLength(open.size)
      const own = known.filter(([, session]) => session.actor === actor)
      const ofWorkspace = known.filter(([, s]) => s.actor.workspace_id === actor.workspace_id)
      const isFull =
        own.length >= BOUNDS.key ||
        ofWorkspace.length >= BOUNDS.workspace ||
        known.length >= BOUNDS.all
      const begin = () => sessions.open({ id: `${now}`, actor, label: null, canAsk: false }, now).id
      if (isFull && own.length === 0) {
        expect(begin).toThrow('sessions')
        continue
      }
      const id = begin()
      const gone = known.filter(([old]) => !sessions.find(old, owner(old), null, now))
      expect(gone).toHaveLength(isFull ? 1 : 0)
      for (const [old, session] of gone) {
        expect(session.actor).toBe(actor)
        if (session.stream) expect(own.every(([, { stream }]) => stream)).toBe(true)
        open.delete(old)
      }
      const session = sessions.find(id, actor, null, now)
      const stream = pick(2) === 0
      if (session && stream) session.stream = new MessageStream(() => undefined)
      open.set(id, { actor, stream })
    }
    function owner(id: string): Actor {
      return open.get(id)?.actor as Actor
    }
  }
})

test('the one that was used longest ago goes first', () => {
  const sessions = new ClientSessions({ ...BOUNDS, key: 2 })
  const [actor] = ACTORS as [Actor]
  const open = (id: string) => sessions.open({ id, actor, label: null, canAsk: false }, 0)
  const has = (id: string) => sessions.find(id, actor, null, 0) !== undefined
  open('a')
  open('b')
  expect(has('a')).toBe(true)
  open('c')
  expect([has('a'), has('b'), has('c')]).toEqual([true, false, true])
})
