import { afterAll, beforeAll, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import { OAuthErrorResponse } from '@openrouter/sdk/models/errors'
import { waitUntil } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { TestIssuer } from '../support/issuer.ts'
import { startLocalServer } from '../support/server.ts'
import { COUNTED, openStage, type Stage } from '../support/stage.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
const clientWith = (apiKey: string) =>
  new OpenRouter({ apiKey, serverURL: stage.base, retryConfig: { strategy: 'none' } })

beforeAll(async () => {
  stage = await openStage()
})
afterAll(() => stage.close())

const failureOf = (call: PromiseLike<unknown>): Promise<{ statusCode?: number }> =>
  Promise.resolve(call).then(
    () => ({}),
    thrown => thrown,
  )

test('OpenRouter’s client makes a code and exchanges it, once', async () => {
  const { oAuth } = clientWith(stage.server.inference_key)
  const { codeChallenge, codeVerifier } = await oAuth.createSHA256CodeChallenge()
  const made = await oAuth.createAuthCode({
    requestBody: {
      callbackUrl: 'https://app.example/callback',
      codeChallenge,
      codeChallengeMethod: 'S256',
      limit: 1.5,
      usageLimitType: 'monthly',
    },
  })
  const requestBody = { code: made.data.id, codeVerifier, codeChallengeMethod: 'S256' as const }
  const { key, userId } = await oAuth.exchangeAuthCodeForAPIKey({ requestBody })
  expect(typeof userId).toBe('string')
  const { data } = await clientWith(key).apiKeys.getCurrentKeyMetadata()
  expect(data).toMatchObject({ limit: 1.5, limitReset: 'monthly' })
  const again = await failureOf(oAuth.exchangeAuthCodeForAPIKey({ requestBody }))
  expect(again.statusCode).toBe(403)
})

test('OpenRouter’s client reads content, and says what was wrong with it', async () => {
  const { data } = stage.server
  const log = ['workspaces', 'update', 'default', '--io-logging', 'yes', '--data', data]
  expect((await runCommand(log)).code).toBe(0)
  await waitUntil(async () => {
    stage.mock.onMessage('Say hello', { content: 'Hello!', ...COUNTED })
    const answer = await clientWith(stage.server.inference_key).chat.send({
      chatRequest: {
        model: 'acme/small',
        messages: [{ role: 'user', content: 'Say hello' }],
        stream: false,
      },
    })
    const id = 'id' in answer ? answer.id : ''
    const { generations } = clientWith(stage.server.inference_key)
    const content = await generations.listGenerationContent({ id }).catch(() => undefined)
    if (!content) return false
    expect(content.data.output.completion).toBe('Hello!')
    const feedback = await clientWith(stage.server.management_key).generations.submitFeedback({
      submitGenerationFeedbackRequest: { generationId: id, category: 'other', comment: 'Fine' },
    })
    return feedback.data.success
  })
})

test('OpenRouter’s client exchanges the token of a workload, and says why it may not', async () => {
  await using issuer = await TestIssuer.start({ now: () => new Date() })
  const config = { oauth: { issuers: { ci: issuer.buildPolicy() } } }
  await using server = await startLocalServer(config)
  const clientOf = (apiKey: string) =>
    new OpenRouter({ apiKey, serverURL: `${server.url}/api/v1`, retryConfig: { strategy: 'none' } })
  const exchange = (subjectToken: string) =>
    clientOf('none').oAuth.createOauthToken({
      tokenExchangeRequest: {
        grantType: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subjectTokenType: 'urn:ietf:params:oauth:token-type:jwt',
        federationPolicyId: 'ci',
        subjectToken,
      },
    })
  const { accessToken, expiresIn } = await exchange(await issuer.sign())
  expect([expiresIn > 500, expiresIn <= 600]).toEqual([true, true])
  const { data } = await clientOf(accessToken).apiKeys.getCurrentKeyMetadata()
  expect(data.isManagementKey).toBe(false)
  const { keys } = await clientOf('none').oAuth.listOauthJwks()
  expect(keys).toHaveLength(3)
  const refused = exchange('no.signed.token')
  await expect(refused).rejects.toMatchObject({ statusCode: 400, error: 'invalid_grant' })
})

test('OpenRouter’s client is told in its own form that it exchanges too often', async () => {
  await using server = await startLocalServer({ oauth: { requests_per_minute: 1 } })
  const options = { apiKey: 'none', serverURL: `${server.url}/api/v1` }
  const { oAuth } = new OpenRouter({ ...options, retryConfig: { strategy: 'none' } })
  const tokenExchangeRequest = {
    grantType: 'urn:ietf:params:oauth:grant-type:token-exchange' as const,
    subjectTokenType: 'urn:ietf:params:oauth:token-type:jwt' as const,
    ...{ federationPolicyId: 'none', subjectToken: 'none' },
  }
  const exchange = () => failureOf(oAuth.createOauthToken({ tokenExchangeRequest }))
  let failure = await exchange()
  // A new minute may begin between two of them.
  while (failure.statusCode === 400) failure = await exchange()
  expect(failure).toBeInstanceOf(OAuthErrorResponse)
  expect(failure).toMatchObject({ statusCode: 429, error: 'temporarily_unavailable' })
})

test.if(hasWirecheck)('every answer has the public form', async () => {
  const { seen, violations } = await stage.report()
  expect(violations).toEqual([])
  expect(Object.keys(seen)).toEqual(
    expect.arrayContaining([
      'createAuthKeysCode 200',
      'exchangeAuthCodeForAPIKey 200',
      'exchangeAuthCodeForAPIKey 403',
      'listGenerationContent 200',
      'submitGenerationFeedback 200',
    ]),
  )
})
