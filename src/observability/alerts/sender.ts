import type { Cancellation } from '../../base/cancellation.ts'
import { renderTime } from '../../base/clock.ts'
import { DueQueue } from '../../base/due-queue.ts'
import { GatewayError } from '../../base/errors.ts'
import { openReceiver } from '../alerts.ts'
import { computePause, DELIVERY_PACE, LONGEST_RETRY } from '../destinations/deliveries/retry.ts'
import {
  describeReason,
  type Sent,
  sendDelivery,
  sendWithin,
} from '../destinations/deliveries/send.ts'
import type { DeliveryRequest } from '../destinations/kind.ts'
import type { NoticeContent } from './notice.ts'
import type { AlertReceiver } from './schema.ts'
import type { Alert, Notice, NoticeState } from './store.ts'
import type { AlertWorld } from './world.ts'

/** How the receivers of alerts are asked. Times in milliseconds. */
const PACE = { ...DELIVERY_PACE, firstPause: 10_000 }

/** How many receivers are asked at once. */
const MOST_AT_ONCE = 4

/** Tells what alerts have decided: at least once, and always under the same id. */
export class AlertSender {
  readonly #world: AlertWorld
  readonly #pace: typeof PACE
  readonly #queue: DueQueue<Notice>
  readonly #requests = new Set<Cancellation>()

  constructor(world: AlertWorld, pace: Partial<typeof PACE> = {}) {
    this.#world = world
    this.#pace = { ...PACE, ...pace }
    this.#queue = new DueQueue(world.clock, {
      getName: notice => notice.id,
      getDue: notice => Date.parse(notice.due_at ?? ''),
      run: notice => this.#tell(notice),
      mayRun: () => world.jobs?.isHeld !== false,
      mostAtOnce: MOST_AT_ONCE,
      longestPause: this.#pace.longestPause,
    })
  }

  /** Begins with what is not told yet. */
  async start(): Promise<void> {
    this.#queue.start(await this.#world.store.alerts.listWaiting())
  }

  add = (notices: Notice[]): void => this.#queue.add(notices)

  /** Ends all requests. What is not told yet is told at the next start. */
  async stop(): Promise<void> {
    const stopped = this.#queue.stop()
    for (const request of this.#requests) request.cancel(STOPPED)
    await stopped
  }

  /** Waits until nothing is sent or written at this moment. */
  rest = (): Promise<void> => this.#queue.rest()

  async #tell(notice: Notice): Promise<Notice | null> {
    const { memory, store } = this.#world
    const alert = memory.alerts.get(notice.alert_id)
    if (!alert) return null
    const sent = await this.#send(alert, notice)
    // It has not been refused: the next process asks as if this one had not.
    if (this.#queue.isStopped && 'failure' in sent && sent.failure !== null) return null
    const state = this.#judge(notice, sent)
    await store.alerts.noteNotice(notice.id, state).catch(() => undefined)
    if (state.state === 'failed')
      this.#world.events.publish('alert.undelivered', {
        ...{ alert_id: alert.id, name: alert.name, error: state.error ?? '' },
      })
    return state.due_at === null ? null : { ...notice, ...state }
  }

  async #send(alert: Alert, { id, content }: Notice): Promise<Sent | Hopeless> {
    if (alert.disabled) return { hopeless: 'The alert was switched off' }
    const to = openReceiver(this.#world, alert)
    if (to === null) return { hopeless: 'Its receiver was sealed with another secret' }
    return sendNotice(this.#world, to, JSON.parse(content), {
      ...{ id, requests: this.#requests, timeout: this.#pace.timeout },
    })
  }

  #judge({ attempts: before, created_at }: Notice, sent: Sent | Hopeless): NoticeState {
    const error = 'hopeless' in sent ? sent.hopeless : describeReason(sent)
    const attempts = before + 1
    if (error === null) return { state: 'delivered', due_at: null, attempts, error }
    const now = this.#world.clock.now().getTime()
    if ('hopeless' in sent || now - Date.parse(created_at) >= LONGEST_RETRY)
      return { state: 'failed', due_at: null, attempts, error }
    const random = this.#world.ids.random()
    const pause = computePause(this.#pace, attempts, sent.retryAfter, { now, random })
    const due_at = renderTime(new Date(now + Math.ceil(pause)))
    return { state: 'waiting', due_at, attempts, error }
  }
}

/** Why a notice can never be sent. */
interface Hopeless {
  hopeless: string
}

/** How a notice is sent: under which id, and for how many milliseconds at most. */
interface NoticeSending {
  id: string
  requests: Set<Cancellation>
  timeout?: number
}

/** Sends a notice. Never throws: a receiver that cannot be reached has no answer. */
export const sendNotice = (
  world: AlertWorld,
  to: AlertReceiver,
  content: NoticeContent,
  { id, requests, timeout = PACE.timeout }: NoticeSending,
): Promise<Sent> => {
  const sending = { timeout, requests }
  return to.type === 'mail'
    ? sendWithin(sending, limit => sendByMail(world, to, content, { id, limit }))
    : sendDelivery(world, FORMS[to.type](world, to as never, content, id), sending)
}

async function sendByMail(
  { config: { mail } }: AlertWorld,
  { addresses }: ReceiverOf<'mail'>,
  { alert, data, created_at }: NoticeContent,
  { id, limit }: { id: string; limit: Cancellation },
): Promise<Sent> {
  if (!mail) return { answer: null, retryAfter: null, failure: 'The config has no mail server' }
  const text = `${data.message}\n\nAlert: ${alert.name} (${alert.id})\nTime: ${created_at}\n`
  const letter = { to: addresses, subject: `${alert.name}: ${data.message}`, text, id }
  const { sendMail } = await import('../../network/mail.ts')
  const sent = await limit.awaitUnlessCancelled(sendMail(mail, letter, PACE.timeout))
  return 'failure' in sent
    ? { answer: null, retryAfter: null, failure: sent.failure }
    : { answer: { status: sent.status, text: '' }, retryAfter: null, failure: null }
}

type ReceiverOf<Type extends AlertReceiver['type']> = Extract<AlertReceiver, { type: Type }>

const FORMS: {
  [Type in Exclude<AlertReceiver['type'], 'mail'>]: (
    world: AlertWorld,
    to: ReceiverOf<Type>,
    content: NoticeContent,
    id: string,
  ) => DeliveryRequest
} = {
  webhook(world, { url, secret }, content, id) {
    const body = JSON.stringify(content)
    const seconds = Math.floor(world.clock.now().getTime() / 1000)
    return {
      ...{ method: 'POST', url, body },
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(seconds),
        'webhook-signature': `v1,${sign(secret, `${id}.${seconds}.${body}`)}`,
      },
    }
  },
  slack: (_, { url }, { alert, data }) => ({
    ...{ method: 'POST', url, headers: { 'content-type': 'application/json' } },
    body: JSON.stringify({ text: escapeSlack(`${alert.name}: ${data.message}`) }),
  }),
}

// As Standard Webhooks say: what follows `whsec_` is the key in base64.
function sign(secret: string, text: string): string {
  const PREFIX = 'whsec_'
  const key = secret.startsWith(PREFIX)
    ? Buffer.from(secret.slice(PREFIX.length), 'base64')
    : Buffer.from(secret)
  return new Bun.CryptoHasher('sha256', key).update(text).digest('base64')
}

// Slack reads these three as mentions and links.
const escapeSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const STOPPED = new GatewayError('provider_unavailable', 'The gateway stops')
