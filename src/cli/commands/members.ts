import { InvalidArgumentError } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { invalid } from '../../base/errors.ts'
import { demand, type Fields, type Flags, fill, findIds, OR_NULL, offer, PAGE } from '../fields.ts'
import { MEMBERS } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { findWorkspaceId } from '../options.ts'
import { print, printNote } from '../output.ts'
import { learnSiteUrl } from '../site-url.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../resources/members/operations.ts')).members.operations,
    ...(await import('../../resources/members/schema.ts')),
    ...(await import('../../resources/workspace-members.ts')),
    ...(await import('../../resources/sign-ins.ts')),
  }),
  {
    args: {
      id: 'the member’s id or e-mail address, or a beginning of one',
      ids: 'the members, in the same way',
    },
    names: { id: MEMBERS },
  },
)

const EMAIL = fill('email', '--email <address>', 'the e-mail address')
const PERSON = [
  fill('first_name', '--first-name <name>', 'the first name; none for none', OR_NULL),
  fill('last_name', '--last-name <name>', 'the last name; none for none', OR_NULL),
  fill('role', '--role <role>', 'admin or member', { parse: parseRole }),
]
const NEW = [...PERSON, demand(EMAIL)]
const CHANGE = [
  ...PERSON,
  EMAIL,
  fill('active', '--activate', 'reactivate a member; their keys stay disabled'),
]
const LIST_FIELDS = [
  ...PAGE,
  offer('--workspace <id>', 'the members of this workspace, by id or slug'),
  offer('--inactive', 'those who are deactivated'),
]
const IDS: Fields = {
  options: [],
  find: async (gateway, _, [ids]) => ({
    user_ids: await findIds(MEMBERS, gateway, ids as string[]),
  }),
}
const PLACEMENT = [IDS, demand(offer('--workspace <id>', 'the workspace, by id or slug'))]

/**
 * `gateway members`: the people of the organization and of each workspace, by the same functions
 * and rules as over HTTP.
 */
export const createMembersCommand = () =>
  defineNoun('members', 'the organization’s people, and the workspaces’', [
    verb(
      'list',
      'list the organization’s members, or a workspace’s',
      LIST_FIELDS,
      (core, flags: Choice) =>
        withInput(core.MemberQuery, async (gateway, actor, query) => {
          refuseChoice(flags)
          const { workspace } = flags
          if (flags.inactive) return core.listInactiveMembers(gateway)
          return workspace === undefined
            ? core.listMembers(gateway, actor, query)
            : core.listWorkspaceMembers(
                gateway,
                actor,
                await findWorkspace(gateway, workspace),
                query,
              )
        }),
    ).printAs(
      ({ data }, { flags: { workspace }, printList }) =>
        printList(
          workspace === undefined
            ? ['E-MAIL', 'FIRST NAME', 'LAST NAME', 'ROLE', 'ID']
            : ['USER', 'ROLE', 'SINCE'],
          data.map(member =>
            'email' in member
              ? [member.email, member.first_name, member.last_name, member.role, member.id]
              : [member.user_id, member.role, member.created_at],
          ),
        ),
      describeInactive,
    ),
    verb('create', 'add a member to the organization', NEW, core => core.create),
    verb('update <id>', 'change a member', CHANGE, core => core.update),
    verb(
      'deactivate <id>',
      'deactivate a member and disable every key that they created',
      [],
      core => core.deactivate,
    ).printAs((_, { named }) => print(`Deactivated ${named}`)),
    verb(
      'link <id>',
      'create a link that signs a member in, once, to give an app a key',
      [],
      (core, flags) => async (gateway, actor, id) => {
        await learnSiteUrl(gateway, flags)
        return core.createSignInLink(gateway, actor, id)
      },
    ).printAs(({ data }) => {
      print(data.url)
      printNote(`It signs ${data.email} in, once, until ${data.expires_at}`)
    }),
    verb(
      'add <ids...>',
      'add members to a workspace',
      PLACEMENT,
      (core, { workspace }: { workspace: string }) =>
        withInput(core.MemberIds, async (gateway, actor, _, input) =>
          core.addWorkspaceMembers(gateway, actor, await findWorkspace(gateway, workspace), input),
        ),
    ).printAs(({ added_count }, { flags: { workspace } }) =>
      print(`Added ${added_count} to ${workspace}`),
    ),
    verb(
      'remove <ids...>',
      'remove members from a workspace',
      PLACEMENT,
      (core, { workspace }: { workspace: string }) =>
        withInput(core.MemberIds, async (gateway, actor, _, input) =>
          core.removeWorkspaceMembers(
            gateway,
            actor,
            await findWorkspace(gateway, workspace),
            input,
          ),
        ),
    ).printAs(({ removed_count }, { flags: { workspace } }) =>
      print(`Removed ${removed_count} from ${workspace}`),
    ),
  ])

/** Which members a list is of. */
interface Choice {
  workspace?: string
  inactive?: boolean
  limit?: number
  offset?: number
}

function refuseChoice({ workspace, inactive, limit, offset }: Choice): void {
  if (inactive && [workspace, limit, offset].some(one => one !== undefined))
    throw invalid('--inactive: expected no --workspace, --limit or --offset beside it')
}

/** Says how many members a list leaves out as they are deactivated. */
async function describeInactive(
  _: unknown,
  { gateway, flags }: { gateway: Gateway; flags: Flags },
): Promise<string[]> {
  if (flags.inactive) return []
  const { length } = await gateway.store.members.listInactive()
  return length > 0 ? [`Hidden: ${length} deactivated. --inactive shows them`] : []
}

const findWorkspace = async (gateway: Gateway, text: string): Promise<string> =>
  (await findWorkspaceId(gateway, text)) ?? text

function parseRole(role: string): string {
  const name = role.replace(/^org:/, '')
  if (name !== 'admin' && name !== 'member')
    throw new InvalidArgumentError('expected admin or member')
  return `org:${name}`
}
