import { expect, test } from 'bun:test'
import type { AuthCode } from '../../../src/resources/auth-codes/store.ts'
import type { IdempotentAnswer } from '../../../src/resources/idempotency.ts'
import type { SignIn } from '../../../src/resources/sign-ins.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildKey,
  CREATED,
  countAudit,
  type GetStore,
  LARGEST,
  LATER,
  readErrorType,
  WORKSPACE,
} from './rows.ts'

const buildSignIn = (hash: string, more: Partial<SignIn> = {}): SignIn => ({
  ...{ hash, kind: 'session', user_id: 'user_1', key_hash: null },
  ...{ issuer: null, subject: null, sid: null, created_at: CREATED, expires_at: LATER, ...more },
})

const buildCode = (hash: string, more: Partial<AuthCode> = {}): AuthCode => ({
  ...{ hash, user_id: 'user_1', workspace_id: WORKSPACE, key_hash: null, callback_url: null },
  ...{ code_challenge: 'c', code_challenge_method: 'S256', key_label: 'App “𝄞”' },
  ...{ limit: LARGEST, limit_reset: 'daily', expires_at: null, created_at: CREATED, ...more },
})

const buildAnswer = (name: string, created_at = CREATED): IdempotentAnswer => ({
  ...{ name, fingerprint: 'f', created_at, status: null, sealed: null },
})

/** Tests what every store promises about sign-ins, codes, and requests that may come again. */
export function testSignIns(store: GetStore): void {
  test('of simultaneous callers one takes a link, and what is over is removed', async () => {
    const { signIns } = store()
    const before = await countAudit(store())
    const link = buildSignIn('link', { kind: 'link', expires_at: CREATED })
    await signIns.insert(link, '', buildAuditEntry())
    await signIns.insert(buildSignIn('old', { expires_at: CREATED }), '', null)
    expect(await signIns.find('link')).toEqual(link)
    const taken = await Promise.all([signIns.take('link'), signIns.take('link')])
    expect(taken.filter(one => one !== undefined)).toEqual([link])
    expect([await signIns.take('link'), await signIns.find('none')]).toEqual([undefined, undefined])
    await signIns.insert(buildSignIn('new'), CREATED, null)
    expect([await signIns.find('old'), await signIns.find('new')]).toEqual([
      undefined,
      buildSignIn('new'),
    ])
    expect(await countAudit(store())).toBe(before + 1)
  })

  test('the oldest sessions end for one more, and all with the secret of their key', async () => {
    const { signIns, keys } = store()
    const hash = 'key of sessions'
    await keys.insert(buildKey({ hash }), buildAuditEntry())
    const begin = (name: string, secret_hash: string | null = null, created_at = CREATED) =>
      signIns.insert(buildSignIn(name, { key_hash: hash, created_at }), '', null, {
        ...{ most: 2, secret_hash },
      })
    await begin('first')
    await begin('second', null, LATER)
    await begin('third', null, LATER)
    const list = async () =>
      (await signIns.listSessions({ user_id: 'user_1', key_hash: hash })).map(one => [
        ...[one.hash, one.expires_at],
      ])
    expect((await list()).toSorted()).toEqual([
      ['second', LATER],
      ['third', LATER],
    ])
    const previous_secret_until = new Date(Date.parse(LATER) - 1).toISOString()
    const change = { secret_hash: 'new', previous_secret_hash: hash, previous_secret_until }
    await keys.update(hash, change, buildAuditEntry())
    expect((await list()).map(([, end]) => end)).toEqual(Array(2).fill(previous_secret_until))
    expect(await readErrorType(begin('late'))).toBe('authentication')
    await begin('new', 'new', LATER)
    await keys.update(hash, { disabled: true }, buildAuditEntry())
    expect(await readErrorType(begin('disabled', 'new'))).toBe('authentication')
  })

  test('sessions are listed, and ended by all that is named, until a time', async () => {
    const { signIns } = store()
    const ada = { issuer: 'https://id.example', subject: 'ada' }
    const all = [
      buildSignIn('one', { ...ada, sid: '1' }),
      buildSignIn('two', { ...ada, sid: '2', created_at: LATER }),
      buildSignIn('own'),
      buildSignIn('key', { key_hash: 'k', ...ada, sid: '1' }),
      buildSignIn('link', { kind: 'link', ...ada, sid: '1' }),
      buildSignIn('bob', { user_id: 'user_2' }),
    ]
    for (const one of all) await signIns.insert(one, '', null)
    const list = async (key_hash: string | null, user_id = 'user_1') =>
      (await signIns.listSessions({ user_id, key_hash })).map(({ hash }) => hash)
    const sorted = async () => [...(await list(null))].toSorted()
    expect([(await list(null))[0], await list('k')]).toEqual(['two', ['key']])
    await signIns.endSessions({ issuer: ada.issuer, sid: '3' }, LATER)
    expect(await sorted()).toEqual(['one', 'own', 'two'])
    await signIns.endSessions({ issuer: ada.issuer, sid: '1' }, LATER)
    expect(await sorted()).toEqual(['own', 'two'])
    await signIns.endSessions({ user_id: 'user_1' }, CREATED)
    expect(await sorted()).toEqual(['two'])
    await signIns.endSessions({ ...ada, user_id: 'user_1' }, LATER)
    expect([await list(null), await list('k'), await list(null, 'user_2')]).toEqual([
      [],
      ['key'],
      ['bob'],
    ])
    expect(await signIns.find('link')).toEqual(all[4])
  })

  test('of simultaneous callers one takes a code, of which a key or user has so many', async () => {
    const { authCodes } = store()
    const insert = (code: AuthCode, before = '', most = 2) =>
      readErrorType(authCodes.insert(code, before, most, buildAuditEntry({ id: code.hash })))
    const unlimited = buildCode('b', { limit: null, limit_reset: null, key_hash: 'k' })
    const one = [await insert(buildCode('a'), '', 1), await insert(unlimited, '', 1)]
    expect(one).toEqual([undefined, undefined])
    expect(await insert(buildCode('c'), '', 1)).toBe('conflict')
    expect(await insert(buildCode('d', { user_id: 'user_2' }))).toBeUndefined()
    expect(await insert(buildCode('e', { workspace_id: 'gone' }), '', 9)).toBe('invalid_request')
    const taken = await Promise.all([authCodes.take('a'), authCodes.take('a')])
    expect(taken.filter(one => one !== undefined)).toEqual([buildCode('a')])
    expect([await authCodes.take('b'), await authCodes.take('b')]).toEqual([unlimited, undefined])
    expect(await insert(buildCode('f', { created_at: LATER }), CREATED)).toBeUndefined()
    expect(await authCodes.take('d')).toBeUndefined()
  })

  test('of simultaneous requests with a name one begins, and others are told of it', async () => {
    const { idempotency } = store()
    const begun = await Promise.all(
      ['a', 'a', 'b'].map(name => idempotency.begin(buildAnswer(name), '')),
    )
    expect(begun.filter(one => one !== undefined)).toEqual([buildAnswer('a')])
    await idempotency.finish('a', 201, 'sealed')
    const done = { ...buildAnswer('a'), status: 201, sealed: 'sealed' }
    expect(await idempotency.find('a')).toEqual(done)
    expect(await idempotency.begin(buildAnswer('a', LATER), '')).toEqual(done)
    await idempotency.remove('b')
    expect(await idempotency.find('b')).toBeUndefined()
    expect(await idempotency.begin(buildAnswer('a', LATER), CREATED)).toBeUndefined()
    expect(await idempotency.find('a')).toEqual(buildAnswer('a', LATER))
  })

  test('answers that hold a secret are removed before others', async () => {
    const { idempotency } = store()
    for (const [name, time] of [
      ...[['secret:a', CREATED] as const, ['secret:b', LATER] as const],
      ...[['call:c', CREATED] as const, ['secret', CREATED] as const],
    ])
      await idempotency.begin(buildAnswer(name, time), '')
    await idempotency.removeSecrets(CREATED)
    const names = ['secret:a', 'secret:b', 'call:c', 'secret']
    const found = await Promise.all(names.map(name => idempotency.find(name)))
    expect(found.map(one => one?.name)).toEqual([undefined, ...names.slice(1)])
  })
}
