import { noteWhatIsLeft } from './virtual-time.ts';

noteWhatIsLeft();
