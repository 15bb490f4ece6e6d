import { describe, expect, test } from 'bun:test'
import { getOperator } from '../../../src/resources/actor.ts'
import { defineAudit, identifyById } from '../../../src/resources/audit/entry.ts'
import { testGateway } from '../../support/gateway.ts'

interface Note {
  id: string
  workspace_id?: string
  text: string
}

const gateway = await testGateway()
const actor = getOperator(gateway)
const before = { id: 'n1', workspace_id: 'w1', text: 'one' }
const after = { ...before, text: 'two' }

describe('the entry of a change', () => {
  const auditNote = defineAudit<Note>('notes', { identify: identifyById })

  test.each<[string, Note | null, Note | null]>([
    ['notes.create', null, after],
    ['notes.update', before, after],
    ['notes.delete', before, null],
  ])('has the action %s, and contains the resource before and after', (action, was, is) => {
    const expected = {
      action,
      resource_id: 'n1',
      workspace_id: 'w1',
      before: was,
      after: is,
      actor: 'operator',
    }
    expect(auditNote(gateway, actor, was, is)).toMatchObject(expected)
  })

  test('uses another verb if the noun or the change has one', () => {
    const auditOther = defineAudit<Note>('notes', {
      identify: identifyById,
      verbs: { delete: 'burn' },
    })
    expect(auditOther(gateway, actor, before, null).action).toBe('notes.burn')
    expect(auditOther(gateway, actor, before, after, 'translate').action).toBe('notes.translate')
    expect(auditOther(gateway, actor, null, after).action).toBe('notes.create')
  })

  test('has no workspace if the resource has none', () => {
    expect(auditNote(gateway, actor, null, { id: 'n2', text: '' }).workspace_id).toBeNull()
  })

  test('contains what the noun shows, with the id that it returns', () => {
    const auditSecret = defineAudit<Note>('notes', {
      identify: ({ text }) => ({ id: text, workspace_id: null }),
      show: ({ id }) => ({ shown: id }),
    })
    const expected = {
      resource_id: 'two',
      workspace_id: null,
      before: { shown: 'n1' },
      after: { shown: 'n1' },
    }
    expect(auditSecret(gateway, actor, before, after)).toMatchObject(expected)
  })
})

test('a credential in a text with an ordinary name is replaced by its fingerprint', () => {
  const key = 'sk-proj-Ab3dEf6hIj9kLmN0pQ'
  const auditNote = defineAudit<Note>('notes', { identify: identifyById })
  const text = `call it with ${key}, please`
  const { after: shown } = auditNote(gateway, actor, null, { id: 'n1', text })
  expect(JSON.stringify(shown)).not.toContain(key)
  expect(shown).toMatchObject({
    text: `call it with ${gateway.secrets.fingerprint(key)}, please`,
  })
})
