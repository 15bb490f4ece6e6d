import { Elysia } from 'elysia'
import { GatewayError } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { getCredits } from '../../core/ledger/credits.ts'
import { nobody } from '../access.ts'
import { operation } from '../operation.ts'
import { defineResource, route } from '../resource.ts'

/** What was paid in and what was spent of it. It is paid in at the terminal. */
export const credits = (gateway: Gateway) => new Elysia().use(balance(gateway)).use(coinbase())

const balance = defineResource({ tag: 'Credits', access: 'management' }, [
  route('GET /credits', 'getCredits', 'What was paid in, and what was spent of it', getCredits),
])

const GONE = 410

// The public service keeps its old door to say that it is closed (wire reference B.1).
const coinbase = () =>
  new Elysia().use(nobody()).post(
    '/credits/coinbase',
    () => {
      throw new GatewayError('not_found', 'Credits cannot be bought here', { status: GONE })
    },
    operation({
      id: 'createCoinbaseCharge',
      tag: 'Credits',
      summary: 'Gone',
      statuses: [GONE],
      open: true,
    }),
  )
