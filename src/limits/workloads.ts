import { invalid } from '../base/errors.ts'
import type { IssuerConfig } from '../config/workloads.ts'
import { getOperator } from '../resources/actor.ts'
import { postponeExchange, refuseExchange } from '../resources/workloads/refusal.ts'
import type { TokenExchange } from '../resources/workloads/schema.ts'
import { type Subject, verifySubjectToken } from '../resources/workloads/subject-token.ts'
import { provideKey, requirePolicy } from '../resources/workloads.ts'
import { assignKeys, findAssignment } from './assignments.ts'
import type { PolicyWorld } from './policy-world.ts'

const GRANT = 'urn:ietf:params:oauth:grant-type:token-exchange'
const JWT = 'urn:ietf:params:oauth:token-type:jwt'
/** In seconds: the longest life of a token of ours (wire reference B.5). */
const LONGEST_LIFE = 900

const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

/**
 * Exchanges the token of a workload for a short-lived one of ours (RFC 8693), which calls accept
 * like the key of its subject. Throws 400 with a code of RFC 6749, and 503 where the issuer, the
 * workspace or the guardrail is missing.
 */
export async function exchangeToken(world: PolicyWorld, form: TokenExchange) {
  checkWords(form)
  const { federation_policy_id: policy, subject_token } = form
  const rule = requirePolicy(world, policy)
  const subject = await verifySubjectToken(world, rule, subject_token)
  const now = world.clock.now()
  const left = Math.floor(subject.expiresAt - now.getTime() / 1000)
  const seconds = Math.min(rule.token_seconds ?? LONGEST_LIFE, left)
  if (seconds < 1) throw refuseExchange('invalid_grant', 'subject_token: it is over')
  const { used } = world.workloads
  if (rule.single_use) await used.use(policy, subject, now)
  const access_token = await issueToken(world, { policy, rule, subject }, seconds).catch(
    async thrown => {
      // What got nothing for it may be asked again, as the refusal says.
      if (rule.single_use) await used.giveBack(policy, subject)
      throw thrown
    },
  )
  return {
    access_token,
    expires_in: seconds,
    issued_token_type: ACCESS_TOKEN,
    scope: 'inference',
    token_type: 'Bearer',
  }
}

/** Who is given a token, and by which policy. */
interface Grantee {
  policy: string
  rule: IssuerConfig
  subject: Subject
}

async function issueToken(
  world: PolicyWorld,
  { policy, rule, subject }: Grantee,
  seconds: number,
): Promise<string> {
  const { hash } = await provideKey(world, policy, rule, subject)
  await assignGuardrail(world, hash, rule.guardrail)
  const grant = { policy, issuer: rule.issuer, subject: subject.name, key_hash: hash }
  return world.workloads.tokens.sign(world, grant, seconds, world.ids.uuid())
}

function checkWords({
  grant_type,
  subject_token_type,
  requested_token_type,
  scope,
}: TokenExchange) {
  if (grant_type !== GRANT)
    throw refuseExchange('unsupported_grant_type', `grant_type: expected ${GRANT}`)
  if (subject_token_type !== JWT) throw invalid(`subject_token_type: expected ${JWT}`)
  if (requested_token_type !== undefined && requested_token_type !== ACCESS_TOKEN)
    throw invalid(`requested_token_type: expected ${ACCESS_TOKEN}`)
  if (scope !== undefined && scope !== 'inference')
    throw refuseExchange('invalid_scope', 'scope: expected inference')
}

// Without the guardrail that its policy names, a token could do more than it should.
async function assignGuardrail(world: PolicyWorld, hash: string, id: string | undefined) {
  if (id === undefined || findAssignment(world, 'key', hash)?.guardrail_id === id) return
  const guardrail = world.memory.guardrails.get(id)
  if (guardrail?.workspace_id !== world.memory.keys.get(hash)?.workspace_id)
    throw postponeExchange('The guardrail of this policy is not in its workspace', 60)
  await assignKeys(world, getOperator(world), id, { key_hashes: [hash] })
}

/** Lists the keys that access tokens are signed with (RFC 7517). */
export const listSigningKeys = ({ workloads, clock }: PolicyWorld) => ({
  keys: workloads.tokens.keys.listPublic(clock.now()),
})
