import { demand, type Fields, fill, OR_NULL, offer, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs, take } from '../noun.ts'
import { print, printTable } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../core/identity/members.ts')),
    ...(await import('../../core/identity/members/schema.ts')),
    ...(await import('../../core/identity/members/view.ts')),
    ...(await import('../../core/identity/workspace-members.ts')),
  }),
  { args: { id: 'the user’s id', ids: 'the users’ ids' } },
)

const EMAIL = fill('email', '--email <address>', 'the e-mail address')
const PERSON = [
  fill('first_name', '--first-name <name>', 'the first name; none for none', OR_NULL),
  fill('last_name', '--last-name <name>', 'the last name; none for none', OR_NULL),
  fill('role', '--role <role>', 'admin or member', { read: readRole }),
]
const NEW = [...PERSON, demand(EMAIL)]
const CHANGE = [
  ...PERSON,
  EMAIL,
  fill('active', '--activate', 'reactivate a member; their keys stay disabled'),
]
const LISTED = [...PAGE, offer('--workspace <id>', 'the members of this workspace, by id or slug')]
const IDS: Fields = { options: [], read: (_, [user_ids]) => ({ user_ids }) }
const PLACE = [IDS, demand(offer('--workspace <id>', 'the workspace, by id or slug'))]

/**
 * `gateway members`: the people of the organization and of each workspace, by the same functions
 * and rules as over HTTP.
 */
export const membersCommand = () =>
  defineNoun('members', 'the organization’s people, and the workspaces’', [
    verb(
      'list',
      'list the organization’s members, or a workspace’s',
      LISTED,
      (of, { workspace }: { workspace?: string }) =>
        take(of.MemberQuery, async (gateway, actor, query) =>
          workspace === undefined
            ? of.listMembers(gateway, actor, query)
            : of.listWorkspaceMembers(gateway, actor, workspace, query),
        ),
    ).prints(({ data }, { flags: { workspace } }) =>
      printTable(
        workspace === undefined
          ? ['E-MAIL', 'FIRST NAME', 'LAST NAME', 'ROLE', 'ID']
          : ['USER', 'ROLE', 'SINCE'],
        data.map(member =>
          'email' in member
            ? [member.email, member.first_name, member.last_name, member.role, member.id]
            : [member.user_id, member.role, member.created_at],
        ),
      ),
    ),
    verb('create', 'add a member to the organization', NEW, of =>
      take(of.NewMember, async (gateway, actor, input) => ({
        data: of.showMember(await of.addMember(gateway, actor, input)),
      })),
    ),
    verb('update <id>', 'change a member', CHANGE, of =>
      take(of.MemberChange, async (gateway, actor, id, change) => ({
        data: of.showMember(await of.updateMember(gateway, actor, id, change)),
      })),
    ),
    verb(
      'deactivate <id>',
      'deactivate a member and disable every key that they created',
      [],
      of => async (gateway, actor, id) => {
        await of.deactivateMember(gateway, actor, id)
        return { deactivated: true }
      },
    ).prints((_, { args: [id] }) => print(`Deactivated ${id}`)),
    verb(
      'add <ids...>',
      'add members to a workspace',
      PLACE,
      (of, { workspace }: { workspace: string }) =>
        take(of.MemberIds, (gateway, actor, _, input) =>
          of.addWorkspaceMembers(gateway, actor, workspace, input),
        ),
    ).prints(({ added_count }, { flags: { workspace } }) =>
      print(`Added ${added_count} to ${workspace}`),
    ),
    verb(
      'remove <ids...>',
      'remove members from a workspace',
      PLACE,
      (of, { workspace }: { workspace: string }) =>
        take(of.MemberIds, (gateway, actor, _, input) =>
          of.removeWorkspaceMembers(gateway, actor, workspace, input),
        ),
    ).prints(({ removed_count }, { flags: { workspace } }) =>
      print(`Removed ${removed_count} from ${workspace}`),
    ),
  ])

function readRole(role: string): string {
  return role === 'admin' || role === 'member' ? `org:${role}` : role
}
